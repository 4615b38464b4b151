// SPDX-License-Identifier: MIT
// One request of the self-test. Guarantees: an output that was not written, not written to its end,
// or written beyond, does not pass. Must not know which requests are worth trying.
#include "selftest_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE   ((size_t)4096) // the data slots are aligned to it
#define MARGIN 16u            // bytes before and after an output that must stay as they are
#define MARK   0xa5u          // is not likely to be right at each place

int selftest_allocate(struct selftest *test)
{
    test->plain = aligned_alloc(PAGE, SELFTEST_STRETCH_MAX);
    test->cipher = aligned_alloc(PAGE, SELFTEST_STRETCH_MAX);
    for (int i = 0; i < 2; i++)
        test->work[i] = aligned_alloc(PAGE, SELFTEST_REQUEST_MAX + 2 * PAGE);
    return test->plain && test->cipher && test->work[0] && test->work[1] ? 0 : -ENOMEM;
}

void selftest_release(struct selftest *test)
{
    free(test->plain);
    free(test->cipher);
    free(test->work[0]);
    free(test->work[1]);
}

static int fail(struct selftest *test, const struct selftest_request *request, int error,
                const char *what)
{
    static const char *const names[] = {"encrypt", "decrypt", "keystream"};
    const char *place =
        request->operation != SELFTEST_KEYSTREAM && request->in_place ? ", in place" : "";

    (void)snprintf(test->text, SELFTEST_TEXT_MAX, "%s at %u bytes, offset %u (%s%s%s%s)", what,
                   request->n_bytes, request->offset, names[request->operation], place,
                   request->remark ? ", " : "", request->remark ? request->remark : "");
    return error;
}

static bool is_marked(const uint8_t *bytes)
{
    for (size_t i = 0; i < MARGIN; i++)
        if (bytes[i] != MARK)
            return false;
    return true;
}

static int run(struct selftest *test, const struct selftest_request *request, uint8_t *out)
{
    const struct selftest_key *tested = &test->tested;
    uint8_t *in = out;

    if (request->operation == SELFTEST_KEYSTREAM)
        return tested->ops->keystream(tested->key, request->iv, out, request->n_bytes);
    // Another odd address than the output's, and none if that is none.
    if (!request->in_place)
        in = test->work[1] + PAGE + (request->offset * 5) % (SELFTEST_OFFSET_MAX + 1);
    memcpy(in, request->input, request->n_bytes);
    return tested->ops->crypt(tested->key, request->operation == SELFTEST_ENCRYPT, request->iv, out,
                              in, request->n_bytes);
}

int selftest_try(struct selftest *test, const struct selftest_request *request)
{
    uint8_t *out = test->work[0] + PAGE + request->offset;
    int r;

    memset(out - MARGIN, MARK, MARGIN + request->n_bytes + MARGIN);
    r = run(test, request, out);
    if (r < 0)
        return fail(test, request, r, strerrorname_np(-r));
    if (memcmp(out, request->expected, request->n_bytes) != 0)
        return fail(test, request, -EBADMSG, "wrong bytes");
    if (!is_marked(out - MARGIN) || !is_marked(out + request->n_bytes))
        return fail(test, request, -EBADMSG, "bytes outside of the output");
    return 0;
}
