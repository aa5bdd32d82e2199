// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual memory of CUDA (cuMemCreate, cuMemMap) for other processes of the host.
//
// What is shared is a block: the memory that was made at once, and that lies at the address in question.  Its name is that of a
// descriptor (base/fdshare.h).  Any thread may call all functions; the context of the device is current.
#ifndef WHI_MEM_CUDA_VIRTUAL_H
#define WHI_MEM_CUDA_VIRTUAL_H

#include "mem/cuda.h"

// whi_cuda_virtual_export names the block at `ptr`, all but its device's name.  WH_ENOTSUP: there is none, or its maker has not asked for
// descriptors.
WH_CHECK wh_status whi_cuda_virtual_export(whi_cuda_ptr ptr, whi_mem_handle *handle);

// whi_cuda_virtual_open maps a block for mapping->device; whi_cuda_virtual_close ends that.  The statuses are those of whi_mem_sharing.
WH_CHECK wh_status whi_cuda_virtual_open(const whi_mem_handle *handle, whi_mem_mapping *mapping);
void whi_cuda_virtual_close(const whi_mem_mapping *mapping);

#endif
