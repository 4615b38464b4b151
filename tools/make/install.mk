# `make install [DESTDIR=..]` and `make uninstall`. An existing configuration is left alone.
MAN_PAGES := $(wildcard man/*.[1-9])
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
GENERATORDIR ?= $(PREFIX)/lib/systemd/system-generators

$(B)/cryptod.pc: client-lib/cryptod.pc.in Makefile
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' $< > $@

# Linked again without a search path of their own: the installed library is where the system looks.
$(B)/installed/cryptoctl $(B)/installed/cryptod.so: $(B)/cryptoctl $(B)/cryptod.so
	@mkdir -p $(@D)
	$(Q)$(MAKE) -s --no-print-directory RPATH= relink-$(notdir $@)
.PHONY: relink-cryptoctl relink-cryptod.so uninstall
relink-cryptoctl:
	$(Q)$(CC) $(ALL_LDFLAGS) -pie -o $(B)/installed/cryptoctl $(CTL_OBJ) -L$(B) -lcryptod $(LIBS.cryptoctl)
relink-cryptod.so:
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,--version-script=provider/provider.map -o $(B)/installed/cryptod.so \
		$(PROVIDER_OBJ) -L$(B) -lcryptod $(LIBS.crypto)

install: all $(B)/cryptod.pc $(B)/installed/cryptoctl $(B)/installed/cryptod.so
	install -Dm755 $(B)/cryptod $(DESTDIR)$(PREFIX)/sbin/cryptod
	install -Dm755 $(B)/installed/cryptoctl $(DESTDIR)$(PREFIX)/bin/cryptoctl
	install -Dm644 $(B)/libcryptod.so.0 $(DESTDIR)$(LIBDIR)/libcryptod.so.0
	ln -sf libcryptod.so.0 $(DESTDIR)$(LIBDIR)/libcryptod.so
	install -Dm644 $(B)/installed/cryptod.so $(DESTDIR)$(MODULESDIR)/cryptod.so
	install -Dm644 client-lib/cryptod.h $(DESTDIR)$(PREFIX)/include/cryptod.h
	install -Dm644 $(B)/cryptod.pc $(DESTDIR)$(LIBDIR)/pkgconfig/cryptod.pc
	for page in $(MAN_PAGES); do \
		install -Dm644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	install -Dm644 -t $(DESTDIR)$(UNITDIR) systemd/cryptod.service systemd/cryptod.socket
	install -Dm755 systemd/cryptod-generator $(DESTDIR)$(GENERATORDIR)/cryptod-generator
	install -Dm644 systemd/ssh.service.d/cryptod.conf $(DESTDIR)$(UNITDIR)/ssh.service.d/cryptod.conf
	for unit in ssh user@; do install -Dm644 -t $(DESTDIR)$(PREFIX)/share/cryptod/no-af-alg/$$unit.service.d \
		systemd/no-af-alg/$$unit.service.d/cryptod-no-af-alg.conf || exit 1; done
	install -Dm644 systemd/cryptod.sysusers $(DESTDIR)$(SYSUSERSDIR)/cryptod.conf
	install -Dm644 systemd/cryptod.tmpfiles $(DESTDIR)$(TMPFILESDIR)/cryptod.conf
	install -Dm644 systemd/openssl-sshd.cnf $(DESTDIR)$(SYSCONFDIR)/cryptod/openssl-sshd.cnf
	[ -e $(DESTDIR)$(SYSCONFDIR)/cryptod/cryptod.conf ] || \
		install -Dm644 systemd/cryptod.conf $(DESTDIR)$(SYSCONFDIR)/cryptod/cryptod.conf
	[ -n "$(DESTDIR)" ] || ldconfig

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/cryptod $(DESTDIR)$(PREFIX)/bin/cryptoctl $(DESTDIR)$(LIBDIR)/libcryptod.so.0 \
		$(DESTDIR)$(LIBDIR)/libcryptod.so $(DESTDIR)$(MODULESDIR)/cryptod.so $(DESTDIR)$(PREFIX)/include/cryptod.h \
		$(DESTDIR)$(LIBDIR)/pkgconfig/cryptod.pc $(DESTDIR)$(UNITDIR)/cryptod.service \
		$(DESTDIR)$(UNITDIR)/cryptod.socket $(DESTDIR)$(UNITDIR)/ssh.service.d/cryptod.conf \
		$(DESTDIR)$(SYSUSERSDIR)/cryptod.conf $(DESTDIR)$(TMPFILESDIR)/cryptod.conf \
		$(DESTDIR)$(GENERATORDIR)/cryptod-generator
	rm -rf $(DESTDIR)$(PREFIX)/share/cryptod/no-af-alg
	for page in $(MAN_PAGES); do rm -f $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}; done
