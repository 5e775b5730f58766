// The kernel records of the cpu device, one line a kernel. A new kernel is one file, one line here and one in
// kernel_list.cpp.
#pragma once

#include "toy/backend/kernel.h"

namespace toy::cpu {

// Dense products (gemm_*.cpp): kernel A for what is computed forward, kernel B for gradients.
KernelRecord linear_kernel();
KernelRecord linear_grad_x_kernel();
KernelRecord linear_grad_w_kernel();
KernelRecord linear_xent_kernel();
KernelRecord matmul_kernel();

// Attention over the rows of a batch, and over pages of a cache.
KernelRecord attention_kernel();
KernelRecord attention_grad_kernel();
KernelRecord attention_paged_kernel();
KernelRecord kv_append_kernel();

// Norms, rotations, gates.
KernelRecord rms_norm_kernel();
KernelRecord rms_norm_grad_kernel();
KernelRecord rope_kernel();
KernelRecord swiglu_kernel();
KernelRecord swiglu_grad_kernel();
KernelRecord softmax_kernel();

// Rows of a table, and their gradient.
KernelRecord embedding_kernel();
KernelRecord embedding_grad_kernel();

// Tensors made from indices.
KernelRecord one_hot_kernel();
KernelRecord attention_mask_kernel();

// Optimizer.
KernelRecord adamw_kernel();
KernelRecord global_norm_kernel();
KernelRecord clip_scale_kernel();

// Elementwise, with broadcasting.
KernelRecord add_kernel();
KernelRecord sub_kernel();
KernelRecord mul_kernel();
KernelRecord div_kernel();
KernelRecord neg_kernel();
KernelRecord exp_kernel();
KernelRecord log_kernel();
KernelRecord sqrt_kernel();
KernelRecord rsqrt_kernel();
KernelRecord sigmoid_kernel();
KernelRecord silu_kernel();
KernelRecord scale_kernel();

// Moving and reducing.
KernelRecord copy_kernel();
KernelRecord concat_kernel();
KernelRecord cast_kernel();
KernelRecord fill_kernel();
KernelRecord sum_kernel();

}  // namespace toy::cpu
