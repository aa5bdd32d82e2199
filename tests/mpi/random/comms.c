// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators: some that are replaced by others now and then, of all ranks and of parts, in another order; an intercommunicator; a grid and
// a graph for neighbors.
#include "random.h"

enum { COMMS = 6, TAG = 7 };

MPI_Comm comm_inter, comm_grid, comm_graph, comm_quiet;
static MPI_Comm comms[COMMS];

// Between ranks of even and of odd numbers.
static void make_inter(void) {
    MPI_Comm half;
    comm_inter = MPI_COMM_NULL;
    if (ranks == 1)
        return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - me % 2, TAG, &comm_inter));
    OK(MPI_Comm_free(&half));
}

static void make_grid(void) {
    int dims[3] = {0}, periodic[3], count = 1 + (int)draw(3);
    for (int i = 0; i < count; i++)
        periodic[i] = (int)draw(2);
    OK(MPI_Dims_create(ranks, count, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, count, dims, periodic, 0, &comm_grid));
}

// An edge from each rank to about half of them.
static void make_graph(void) {
    int *in = malloc((size_t)ranks * sizeof(int)), *out = malloc((size_t)ranks * sizeof(int)),
        ins = 0, outs = 0;
    CHECK(in && out);
    for (int i = 0; i < ranks; i++) {
        if (hashed(2, (unsigned)i, (unsigned)me, 8))
            in[ins++] = i;
        if (hashed(2, (unsigned)me, (unsigned)(ranks - 1 - i), 8))
            out[outs++] = ranks - 1 - i;
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ins, in, MPI_UNWEIGHTED, outs, out,
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm_graph));
    free(in);
    free(out);
}

void comms_begin(void) {
    comms[0] = MPI_COMM_WORLD;
    for (int i = 1; i < COMMS; i++) {
        if (i % 2)
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        else
            OK(MPI_Comm_split(MPI_COMM_WORLD, me % i, i == 4 ? -me : me, &comms[i]));
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_quiet));
    make_inter();
    make_grid();
    make_graph();
}

void comms_end(void) {
    for (int i = 1; i < COMMS; i++)
        OK(MPI_Comm_free(&comms[i]));
    OK(MPI_Comm_free(&comm_quiet));
    OK(MPI_Comm_free(&comm_grid));
    OK(MPI_Comm_free(&comm_graph));
    if (comm_inter != MPI_COMM_NULL)
        OK(MPI_Comm_free(&comm_inter));
}

MPI_Comm comm_draw(void) {
    return comms[draw(COMMS)];
}

// Columns of a grid.
static MPI_Comm columns(MPI_Comm of) {
    MPI_Comm grid, column;
    int dims[2] = {0, 0};
    OK(MPI_Dims_create(size_of(of), 2, dims));
    OK(MPI_Cart_create(of, 2, dims, (int[]){1, 0}, 0, &grid));
    OK(MPI_Cart_sub(grid, (int[]){1, 0}, &column));
    OK(MPI_Comm_free(&grid));
    return column;
}

static MPI_Comm all_but_the_order(MPI_Comm of, bool of_group) {
    MPI_Group all, turned;
    MPI_Comm made;
    OK(MPI_Comm_group(of, &all));
    int last = size_of(of) - 1;
    OK(MPI_Group_range_incl(all, 1, (int[][3]){{last, 0, -1}}, &turned));
    if (of_group)
        OK(MPI_Comm_create_group(of, turned, TAG, &made));
    else
        OK(MPI_Comm_create(of, turned, &made));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&turned));
    return made;
}

static MPI_Comm merged(void) {
    MPI_Comm made;
    if (comm_inter == MPI_COMM_NULL)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    else
        OK(MPI_Intercomm_merge(comm_inter, me % 2 == 0, &made));
    return made;
}

static MPI_Comm made_of(MPI_Comm of) {
    MPI_Comm made;
    MPI_Request request;
    int rank = rank_in(of), colors = 1 + (int)draw(3);
    bool backwards = draw(2);
    switch (draw(8)) {
    case 0: OK(MPI_Comm_dup(of, &made)); return made;
    case 1:
        OK(MPI_Comm_idup(of, &made, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return made;
    case 2:
    case 3: OK(MPI_Comm_split(of, rank % colors, backwards ? -rank : rank, &made)); return made;
    case 4: return columns(of);
    case 5: return all_but_the_order(of, false);
    case 6: return all_but_the_order(of, true);
    default: return merged();
    }
}

void comms_change(void) {
    unsigned which = 1 + draw(COMMS - 1), of = draw(2) ? 0 : which;
    pending_some();
    if (draw(4) == 0) {
        OK(MPI_Comm_free(draw(2) ? &comm_grid : &comm_graph));
        if (comm_grid == MPI_COMM_NULL)
            make_grid();
        else
            make_graph();
        return;
    }
    MPI_Comm made = made_of(comms[of]);
    OK(MPI_Comm_free(&comms[which]));  // pending operations hold it
    comms[which] = made;
    note("rank of the communicator", rank_in(made));
}
