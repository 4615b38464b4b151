#!/bin/sh
# compile-commands.sh: reads what `make -Bn V=1` would run, writes a compilation database (JSON) for clang tools.
exec awk -v dir="$PWD" '
    BEGIN { printf "[" }
    / -c -o [^ ]+ [^ ]+\.c$/ {
        file = $NF
        sub(/ -ftrivial-auto-var-init=zero/, "") # clang 14 wants a confirmation with it
        gsub(/\\/, "\\\\"); gsub(/"/, "\\\"")
        printf "%s\n{\"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\"}", n++ ? "," : "", dir, file, $0
    }
    END { print "\n]" }'
