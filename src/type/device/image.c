// SPDX-License-Identifier: BSD-3-Clause
//
// Making images, see image.h.
//
// A layout is a tree in which copies share children and tables; each of these is written once, known by its address,
// so that an image is no larger than what the type was described by.
#include "type/device/image.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

struct whi_device_image {
    pthread_mutex_t lock;  // of copying
    unsigned char *data;   // NULL: no tables
    size_t size;
    uint64_t bits;
    const whi_mem_ops *ops;  // of the copies
    _Atomic(void *) there[WHI_MEM_PROGRAM_DEVICES];
};

whi_divisor whi_divisor_make(uint64_t by) {
    uint32_t log = by > 1 ? 64 - (uint32_t)__builtin_clzll(by - 1) : 0;
    uint64_t past = log < 64 ? ((uint64_t)1 << log) - by : 0 - by;
    whi_divisor made = {.by = by, .log = log};
    made.mul = (uint64_t)(((unsigned __int128)past << 64) / by) + 1;
    if (by <= UINT32_MAX)
        made.mul32 = (uint32_t)((past << 32) / by) + 1;
    return made;
}

whi_device_loop whi_device_loop_make(const whi_dim *dim) {
    return (whi_device_loop){.size = whi_divisor_make((uint64_t)dim->size), .stride = dim->stride};
}

// ---- Building.

typedef struct builder {
    whi_device_layout *layouts;
    size_t nlayouts, layout_space;
    unsigned char *tables;  // the first eight bytes are none's, so that 0 names none
    size_t size, space;
    uint64_t bits;
    whi_d32 (*element_of)(wh_type_id);
    whi_hash seen;  // address of a table or of children -> its place + 1
} builder;

static wh_status build_leaf(builder *b, const whi_leaf *leaf, whi_device_layout *out);

static whi_d32 element_of(const builder *b, uint8_t tag) {
    return tag == WHI_TAG_NONE ? 0 : b->element_of((wh_type_id)tag);
}

static wh_status grow(void **array, size_t *space, size_t need, size_t each) {
    if (need <= *space)
        return WH_OK;
    size_t wanted = need > 2 * *space ? need : 2 * *space;
    void *grown = whi_realloc(*array, wanted * each);
    if (!grown)
        return WH_ENOMEM;
    *array = grown;
    *space = wanted;
    return WH_OK;
}

// find_table returns where the table at `source` is, or a place for its `bytes` bytes, which are to be filled in.
static wh_status find_table(builder *b, const void *source, size_t bytes, whi_d64 *place,
                            void **fill) {
    uint64_t key = (uint64_t)(uintptr_t)source;
    uintptr_t known = (uintptr_t)whi_hash_get(&b->seen, key);
    *fill = NULL;
    if (known) {
        *place = known - 1;
        return WH_OK;
    }
    size_t begin = b->size ? b->size : 8, end = begin + (bytes + 7) / 8 * 8;
    wh_status status = grow((void **)&b->tables, &b->space, end, 1);
    if (status == WH_OK)
        status = whi_hash_put(&b->seen, key, (void *)(uintptr_t)(begin + 1));
    if (status != WH_OK)
        return status;
    b->size = end;
    *place = begin;
    *fill = b->tables + begin;
    return WH_OK;
}

static wh_status build_offsets(builder *b, const whi_leaf *leaf, whi_device_layout *out) {
    const void *source = leaf->off32 ? (const void *)leaf->off32 : leaf->off;
    void *fill;
    wh_status status =
        find_table(b, source, (size_t)leaf->n * sizeof(int64_t), &out->offsets, &fill);
    for (int64_t i = 0, *to = fill; i < leaf->n && to; i++) {
        to[i] = whi_leaf_off(leaf, i);
        b->bits |= (uint64_t)to[i];
    }
    return status;
}

static wh_status build_places(builder *b, const whi_leaf *leaf, whi_device_layout *out) {
    void *fill;
    wh_status status =
        find_table(b, leaf->pos, (size_t)(leaf->n + 1) * sizeof(int64_t), &out->places, &fill);
    int64_t at = 0, *to = fill;
    for (int64_t i = 0; i < leaf->n && to; i++) {
        to[i] = at;
        b->bits |= (uint64_t)at;
        at += leaf->kind == WHI_LIST ? whi_leaf_len(leaf, i) : leaf->child[i].size;
    }
    if (to)
        to[leaf->n] = at;
    b->bits |= (uint64_t)at;
    return status;
}

static wh_status build_elements(builder *b, const whi_leaf *leaf, whi_device_layout *out) {
    void *fill;
    wh_status status =
        find_table(b, leaf->tags, (size_t)leaf->n * sizeof(uint32_t), &out->elements, &fill);
    uint32_t *to = fill;
    for (int64_t i = 0; i < leaf->n && to; i++)
        to[i] = element_of(b, leaf->tags[i]);
    return status;
}

static void build_loops(builder *b, const whi_layout *layout, whi_device_layout *out) {
    out->off = layout->off;
    out->ndims = (uint32_t)layout->ndims;
    b->bits |= (uint64_t)layout->off;
    for (int d = 0; d < layout->ndims; d++) {
        out->loop[d] = whi_device_loop_make(&layout->dim[d]);
        b->bits |= (uint64_t)layout->dim[d].stride;
    }
}

static wh_status build_children(builder *b, const whi_leaf *leaf, whi_device_layout *out) {
    uint64_t key = (uint64_t)(uintptr_t)leaf->child;
    uintptr_t known = (uintptr_t)whi_hash_get(&b->seen, key);
    if (known) {
        out->child = (uint32_t)(known - 1);
        return WH_OK;
    }
    size_t n = leaf->kind == WHI_SEQ ? (size_t)leaf->n : 1, first = b->nlayouts;
    wh_status status = first + n > UINT32_MAX ? WH_ENOTSUP : WH_OK;
    if (status == WH_OK)
        status = grow((void **)&b->layouts, &b->layout_space, first + n, sizeof(*b->layouts));
    if (status == WH_OK)
        status = whi_hash_put(&b->seen, key, (void *)(uintptr_t)(first + 1));
    b->nlayouts += status == WH_OK ? n : 0;
    for (size_t i = 0; i < n && status == WH_OK; i++) {
        whi_device_layout made;
        memset(&made, 0, sizeof(made));
        build_loops(b, &leaf->child[i], &made);
        status = build_leaf(b, &leaf->child[i].leaf, &made);
        b->layouts[first + i] = made;  // the array may have moved
    }
    out->child = (uint32_t)first;
    return status;
}

static wh_status build_leaf(builder *b, const whi_leaf *leaf, whi_device_layout *out) {
    static const uint8_t kinds[] = {[WHI_RUN] = WHI_DEVICE_RUN,
                                    [WHI_BLOCKS] = WHI_DEVICE_BLOCKS,
                                    [WHI_LIST] = WHI_DEVICE_LIST,
                                    [WHI_INDEX] = WHI_DEVICE_INDEX,
                                    [WHI_SEQ] = WHI_DEVICE_SEQ};
    bool table = leaf->kind == WHI_BLOCKS || leaf->kind == WHI_LIST;
    wh_status status = WH_OK;
    out->kind = kinds[leaf->kind];
    out->n = (uint64_t)leaf->n;
    out->element = element_of(b, leaf->tag);
    if (leaf->kind == WHI_RUN)
        b->bits |= (uint64_t)leaf->size;
    if (leaf->kind == WHI_BLOCKS)
        b->bits |= (uint64_t)leaf->len;
    if (leaf->kind == WHI_BLOCKS || leaf->kind == WHI_INDEX)
        out->each =
            whi_divisor_make((uint64_t)(leaf->kind == WHI_BLOCKS ? leaf->len : leaf->child->size));
    if (table || leaf->kind == WHI_INDEX)
        status = build_offsets(b, leaf, out);
    if (status == WH_OK && (leaf->kind == WHI_LIST || leaf->kind == WHI_SEQ))
        status = build_places(b, leaf, out);
    if (status == WH_OK && leaf->tags)
        status = build_elements(b, leaf, out);
    if (status == WH_OK && !table && leaf->kind != WHI_RUN)
        status = build_children(b, leaf, out);
    return status;
}

// Layouts first, tables behind them.
static wh_status join(builder *b, whi_device_image *image) {
    size_t first = b->nlayouts * sizeof(*b->layouts);
    image->data = whi_malloc(first + b->size);
    if (!image->data)
        return WH_ENOMEM;
    for (size_t i = 0; i < b->nlayouts; i++) {
        whi_device_layout *l = &b->layouts[i];
        l->offsets += l->offsets ? first : 0;
        l->places += l->places ? first : 0;
        l->elements += l->elements ? first : 0;
    }
    memcpy(image->data, b->layouts, first);
    if (b->size)
        memcpy(image->data + first, b->tables, b->size);
    image->size = first + b->size;
    return WH_OK;
}

static wh_status build(const whi_plan *plan, whi_d32 (*elements)(wh_type_id),
                       whi_device_image *image) {
    builder b = {.element_of = elements};
    const whi_leaf *leaf = &plan->normal.leaf;
    whi_hash_init(&b.seen);
    // The first layout is the leaf alone: the loops around it are parameters of each launch.
    wh_status status = grow((void **)&b.layouts, &b.layout_space, 1, sizeof(*b.layouts));
    if (status == WH_OK) {
        whi_device_layout top;
        memset(&top, 0, sizeof(top));
        b.nlayouts = 1;
        status = build_leaf(&b, leaf, &top);
        b.layouts[0] = top;
    }
    for (int d = 0; d < plan->normal.ndims; d++)
        b.bits |= (uint64_t)plan->normal.dim[d].stride;
    image->bits = b.bits;
    if (status == WH_OK && leaf->kind != WHI_RUN)
        status = join(&b, image);
    whi_hash_fini(&b.seen);
    whi_free(b.layouts);
    whi_free(b.tables);
    return status;
}

wh_status whi_device_image_of(const whi_plan *plan, whi_d32 (*elements)(wh_type_id),
                              whi_device_image **image) {
    whi_plan *owner = (whi_plan *)(uintptr_t)plan;
    whi_device_image *made = atomic_load_explicit(&owner->image, memory_order_acquire), *other;
    if (made) {
        *image = made;
        return WH_OK;
    }
    made = whi_calloc(1, sizeof(*made));
    if (!made)
        return WH_ENOMEM;
    pthread_mutex_init(&made->lock, NULL);
    wh_status status = build(plan, elements, made);
    other = NULL;
    if (status == WH_OK && !atomic_compare_exchange_strong(&owner->image, &other, made)) {
        whi_device_image_free(made);
        made = other;
    } else if (status != WH_OK) {
        whi_device_image_free(made);
    }
    if (status == WH_OK)
        *image = made;
    return status;
}

// ---- Copies on devices.

static wh_status copy_there(whi_device_image *image, const whi_mem_ops *ops, int device) {
    void *memory;
    if (atomic_load(&image->there[device]))
        return WH_OK;
    wh_status status = ops->alloc(device, image->size, &memory);
    if (status != WH_OK)
        return status;
    status = ops->copy(WHI_MEM_FROM_HOST, memory, image->data, image->size);
    if (status != WH_OK) {
        (void)!ops->free(memory);
        return status;
    }
    image->ops = ops;
    atomic_store_explicit(&image->there[device], memory, memory_order_release);
    return WH_OK;
}

wh_status whi_device_image_there(whi_device_image *image, const whi_mem_ops *ops, int device,
                                 whi_d64 *tables) {
    wh_status status = WH_OK;
    *tables = 0;
    if (!image->data)
        return WH_OK;
    if (!atomic_load_explicit(&image->there[device], memory_order_acquire)) {
        pthread_mutex_lock(&image->lock);
        status = copy_there(image, ops, device);
        pthread_mutex_unlock(&image->lock);
    }
    if (status == WH_OK)
        *tables =
            (whi_d64)(uintptr_t)atomic_load_explicit(&image->there[device], memory_order_acquire);
    return status;
}

uint64_t whi_device_image_bits(const whi_device_image *image) {
    return image->bits;
}

void whi_device_image_free(whi_device_image *image) {
    if (!image)
        return;
    // In a forked child the devices are the parent's.
    for (int i = 0; i < WHI_MEM_PROGRAM_DEVICES; i++)
        if (image->there[i] && image->ops->exists())
            (void)!image->ops->free(image->there[i]);
    pthread_mutex_destroy(&image->lock);
    whi_free(image->data);
    whi_free(image);
}
