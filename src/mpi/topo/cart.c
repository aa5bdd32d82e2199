// SPDX-License-Identifier: BSD-3-Clause
//
// Cartesian topologies: ranks in a grid, the last dimension the one that varies fastest.  `reorder` is allowed to change nothing.
#include <limits.h>
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/comm/split.h"
#include "mpi/topo/topo.h"

// ---- Coordinates.

static void coords_of(const whm_topo *cart, int rank, int *coords) {
    for (int d = cart->dims; d-- > 0;) {
        coords[d] = rank % cart->extent[d];
        rank /= cart->extent[d];
    }
}

// beside returns the rank that is `step` away in a dimension; MPI_PROC_NULL: there is none.
static int beside(const whm_topo *cart, int dimension, int step) {
    int at = cart->coords[dimension], extent = cart->extent[dimension], rank = 0;
    long to = (long)at + step;
    if (cart->period[dimension])
        to = (to % extent + extent) % extent;
    else if (to < 0 || to >= extent)
        return MPI_PROC_NULL;
    for (int d = 0; d < cart->dims; d++)
        rank = rank * cart->extent[d] + (d == dimension ? (int)to : cart->coords[d]);
    return rank;
}

// ---- Making.

// count_ranks checks the dimensions and writes how many ranks they are.
static int count_ranks(int ndims, const int *dims, int most, int *count) {
    long n = 1;
    for (int d = 0; d < ndims; d++) {
        if (dims[d] < 1)
            return whm_fail(MPI_ERR_DIMS, "dimension %d is %d", d, dims[d]);
        n *= dims[d];
        if (n > most)
            return whm_fail(MPI_ERR_DIMS, "the grid has more ranks than the communicator's %d",
                            most);
    }
    *count = (int)n;
    return MPI_SUCCESS;
}

// make makes the topology as `rank` sees it; NULL: no memory.
static whm_topo *make(int ndims, const int *dims, const int *periods, int rank) {
    whm_topo *cart = whm_topo_new(MPI_CART);
    if (!cart)
        return NULL;
    cart->dims = ndims;
    cart->in = cart->out = 2 * ndims;
    cart->extent = whm_topo_ints(dims, ndims);
    cart->period = whm_topo_ints(periods, ndims);
    cart->coords = whm_malloc(((size_t)ndims + 1) * sizeof(int));
    cart->from = whm_malloc(((size_t)ndims * 2 + 1) * sizeof(int));
    cart->to = whm_malloc(((size_t)ndims * 2 + 1) * sizeof(int));
    if (!cart->extent || !cart->period || !cart->coords || !cart->from || !cart->to) {
        whm_topo_release(cart);
        return NULL;
    }
    coords_of(cart, rank, cart->coords);
    for (int d = 0; d < ndims; d++) {
        cart->period[d] = cart->period[d] != 0;
        cart->from[2 * d] = cart->to[2 * d] = beside(cart, d, -1);
        cart->from[2 * d + 1] = cart->to[2 * d + 1] = beside(cart, d, 1);
    }
    return cart;
}

int mpi_cart_create(whm_comm *comm_old, int ndims, const int *dims, const int *periods, int reorder,
                    whm_comm **comm_cart) {
    (void)reorder;
    int count = 0, rc = whm_topo_check_intra(comm_old);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = count_ranks(ndims, dims, comm_old->size, &count);
    whm_topo *cart = NULL;
    if (rc == MPI_SUCCESS && !(cart = make(ndims, dims, periods, comm_old->rank % count)))
        rc = whm_no_memory();
    return whm_topo_born(comm_old, rc, count, cart, comm_cart);
}

int mpi_cart_map(whm_comm *comm, int ndims, const int *dims, const int *periods, int *newrank) {
    (void)periods;
    int count = 0, rc = count_ranks(ndims, dims, comm->size, &count);
    if (rc == MPI_SUCCESS)
        *newrank = comm->rank < count ? comm->rank : MPI_UNDEFINED;
    return rc;
}

int mpi_cart_sub(whm_comm *comm, const int *remain_dims, whm_comm **newcomm) {
    const whm_topo *cart = whm_topo_of(comm, MPI_CART);
    if (!cart)
        return MPI_ERR_TOPOLOGY;
    int color = 0, key = 0, kept = 0, failed = MPI_SUCCESS;
    int *dims = whm_malloc(((size_t)cart->dims + 1) * 2 * sizeof(*dims));
    int *periods = dims ? dims + cart->dims + 1 : NULL;
    for (int d = 0; dims && d < cart->dims; d++) {
        if (remain_dims[d]) {
            dims[kept] = cart->extent[d];
            periods[kept++] = cart->period[d];
            key = key * cart->extent[d] + cart->coords[d];
        } else {
            color = color * cart->extent[d] + cart->coords[d];
        }
    }
    whm_topo *part = dims ? make(kept, dims, periods, key) : NULL;
    free(dims);
    if (!part)
        failed = whm_no_memory();
    int rc = whm_split(comm, failed, color, key, newcomm);
    if (rc == MPI_SUCCESS)
        (*newcomm)->topo = part;
    else
        whm_topo_release(part);
    return rc;
}

// ---- Asking.

int mpi_cartdim_get(whm_comm *comm, int *ndims) {
    const whm_topo *cart = whm_topo_of(comm, MPI_CART);
    if (!cart)
        return MPI_ERR_TOPOLOGY;
    *ndims = cart->dims;
    return MPI_SUCCESS;
}

static int check_room(const whm_topo *cart, int maxdims) {
    return maxdims >= cart->dims
               ? MPI_SUCCESS
               : whm_fail(MPI_ERR_ARG, "there is room for %d dimensions, and there are %d", maxdims,
                          cart->dims);
}

int mpi_cart_get(whm_comm *comm, int maxdims, int *dims, int *periods, int *coords) {
    const whm_topo *cart = whm_topo_of(comm, MPI_CART);
    int rc = cart ? check_room(cart, maxdims) : MPI_ERR_TOPOLOGY;
    for (int d = 0; rc == MPI_SUCCESS && d < cart->dims; d++) {
        dims[d] = cart->extent[d];
        periods[d] = cart->period[d];
        coords[d] = cart->coords[d];
    }
    return rc;
}

int mpi_cart_coords(whm_comm *comm, int rank, int maxdims, int *coords) {
    const whm_topo *cart = whm_topo_of(comm, MPI_CART);
    int rc = cart ? check_room(cart, maxdims) : MPI_ERR_TOPOLOGY;
    if (rc == MPI_SUCCESS && (rank < 0 || rank >= comm->size))
        rc = whm_fail(MPI_ERR_RANK, "there is no rank %d in a grid of %d", rank, comm->size);
    if (rc == MPI_SUCCESS)
        coords_of(cart, rank, coords);
    return rc;
}

int mpi_cart_rank(whm_comm *comm, const int *coords, int *rank) {
    const whm_topo *cart = whm_topo_of(comm, MPI_CART);
    if (!cart)
        return MPI_ERR_TOPOLOGY;
    int found = 0;
    for (int d = 0; d < cart->dims; d++) {
        int at = coords[d], extent = cart->extent[d];
        if (cart->period[d])
            at = (at % extent + extent) % extent;
        else if (at < 0 || at >= extent)
            return whm_fail(MPI_ERR_ARG,
                            "coordinate %d is %d, and the dimension, which is no ring, has %d", d,
                            at, extent);
        found = found * extent + at;
    }
    *rank = found;
    return MPI_SUCCESS;
}

int mpi_cart_shift(whm_comm *comm, int direction, int disp, int *rank_source, int *rank_dest) {
    const whm_topo *cart = whm_topo_of(comm, MPI_CART);
    if (!cart)
        return MPI_ERR_TOPOLOGY;
    if (direction < 0 || direction >= cart->dims)
        return whm_fail(MPI_ERR_ARG, "there is no dimension %d of %d", direction, cart->dims);
    if (disp == INT_MIN)
        return whm_fail(MPI_ERR_ARG, "the displacement is %d", disp);
    *rank_source = beside(cart, direction, -disp);
    *rank_dest = beside(cart, direction, disp);
    return MPI_SUCCESS;
}
