// SPDX-License-Identifier: BSD-3-Clause
#include "rt/coll/call.h"

#include "base/log.h"
#include "base/opts.h"

wh_status whi_coll_check_root(const wh_team *team, uint32_t root, const char *function) {
    if (root < team->count)
        return WH_OK;
    whi_log(WHI_ERROR, "E-COLL-06", "%s: root is %u, and the team has %u members", function, root,
            team->count);
    return WH_EINVAL;
}

static wh_status take_both(const whi_coll_side *from, const whi_coll_side *to, const char *function,
                           whi_coll_args *args) {
    const whi_coll_side *source = args->in_place ? to : from;
    uint32_t blocks = from->blocks > to->blocks ? from->blocks : source->blocks;
    wh_status st = whi_coll_data_init(&args->from, source->buf, source->count, source->type, blocks,
                                      function, args->in_place ? "to" : "from");
    if (st == WH_OK && to->blocks)
        st =
            whi_coll_data_init(&args->to, to->buf, to->count, to->type, to->blocks, function, "to");
    if (st != WH_OK || !to->blocks || args->from.size == args->to.size)
        return st;
    whi_log(WHI_ERROR, "E-COLL-08", "%s: a block of from has %llu bytes, one of to %llu", function,
            (unsigned long long)args->from.size, (unsigned long long)args->to.size);
    return WH_EINVAL;
}

wh_status whi_coll_take(const whi_coll_side *from, const whi_coll_side *to, const char *function,
                        whi_coll_args *args) {
    *args = (whi_coll_args){.in_place = from->buf == WH_IN_PLACE};
    if (args->in_place && !to->blocks) {
        whi_log(WHI_ERROR, "E-COLL-07",
                "%s: WH_IN_PLACE is for members that have a `to`; give the data as `from`",
                function);
        return WH_EINVAL;
    }
    wh_status st = take_both(from, to, function, args);
    if (st != WH_OK)
        whi_coll_args_fini(args);
    return st;
}

wh_status whi_coll_take_reduction(const whi_coll_side *from, const whi_coll_side *to,
                                  const wh_reduction *how, const char *function,
                                  whi_coll_args *args) {
    if (!how)
        return WH_EINVAL;
    wh_reduction taken;
    wh_status st = whi_opts_take(&taken, sizeof(taken), how, "wh_reduction");
    if (st == WH_OK)
        st = whi_coll_take(from, to, function, args);
    if (st != WH_OK)
        return st;
    args->how = taken;
    // Nothing is combined yet, but what the first time needs is made now, when a refusal costs nothing.
    char nothing;
    st = wh_accumulate_packed(&nothing, &nothing, 0, args->from.count, args->from.type, 0, taken.op,
                              taken.fn, taken.arg);
    if (st == WH_OK)
        return WH_OK;
    whi_log(WHI_ERROR, "E-COLL-09", "%s: %s", function, wh_type_error());
    whi_coll_args_fini(args);
    return st;
}

wh_status whi_coll_may_wait(const wh_team *team) {
    if (!team)
        return WH_EINVAL;
    return team->port->worker ? wh_request_may_wait(team->port->worker) : WH_ECLOSED;
}
