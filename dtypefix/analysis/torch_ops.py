"""What torch functions and tensor methods do to dtypes, as tables.

A name may stand for ``torch.<name>``, ``torch.nn.functional.<name>`` and ``Tensor.<name>`` alike;
the tables hold what is true of all of them. Source: the torch 2.x documentation of each function.
"""

from __future__ import annotations

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FACTORIES: Final = _names(
    "empty zeros ones rand randn linspace logspace eye empty_strided hann_window hamming_window normal"
)
"""Without ``dtype`` these give the default dtype."""

INTEGER_FACTORIES: Final = _names("randint randperm tril_indices triu_indices")
"""Without ``dtype`` these give int64."""

LIKE_FACTORIES: Final = _names("empty_like zeros_like ones_like full_like rand_like randn_like randint_like")
NEW_FACTORIES: Final = _names("new_empty new_zeros new_ones new_full new_empty_strided new_tensor")

SAME: Final = _names(
    """
    reshape view_as view reshape_as transpose swapaxes swapdims permute t contiguous flatten unflatten ravel
    unsqueeze squeeze expand expand_as broadcast_to repeat tile repeat_interleave narrow select index_select
    gather take take_along_dim masked_select masked_fill masked_fill_ masked_scatter masked_scatter_ scatter
    scatter_ scatter_add scatter_add_ index_add index_add_ index_copy index_copy_ index_fill index_fill_
    index_put index_put_ scatter_reduce scatter_reduce_ clone detach detach_ cpu cuda xpu npu pin_memory
    requires_grad_ as_strided unfold roll flip fliplr flipud rot90 movedim moveaxis diagonal diag diag_embed
    tril tril_ triu triu_ clamp clamp_ clamp_min clamp_min_ clamp_max clamp_max_ clip clip_ abs abs_ neg neg_
    positive sign sgn square round round_ floor floor_ ceil ceil_ trunc frac relu relu_ relu6 leaky_relu elu
    gelu silu silu_ mish selu softplus hardtanh hardswish glu tanhshrink softsign logsigmoid celu dropout
    dropout_ alpha_dropout pad interpolate grid_sample pixel_shuffle pixel_unshuffle normalize layer_norm
    group_norm rms_norm batch_norm instance_norm avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d
    max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d upsample fold
    copy_ fill_ zero_ uniform_ normal_ exponential_ random_ bernoulli_ trunc_normal_ share_memory_ set_
    resize_ resize_as_ add_ sub_ mul_ div_ pow_ addcmul_ addcdiv_ addmm_ addbmm_ baddbmm_ lerp_ sigmoid_ exp_
    log_ sqrt_ rsqrt_ tanh_ reciprocal_ floor_divide_ remainder_ logical_and_ logical_or_ bitwise_and_
    bitwise_or_ t_ transpose_ squeeze_ unsqueeze_ cumsum_ amax amin quantile
    cholesky inverse pinverse renorm
    to_dense coalesce lerp cross expand_copy slice_scatter select_scatter
    """
)
"""These return their first operand's dtype (in-place methods among them)."""

FLOATING: Final = _names(
    """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
    sigmoid erf erfc erfinv lgamma digamma reciprocal softmax log_softmax softmin logsumexp mean std var norm
    special_expit logit xlogy deg2rad rad2deg nanmean sinc
    """
)
"""As ``SAME`` for floating operands; an integer operand gives the default dtype. ``dtype=`` is honoured."""

SUMMING: Final = _names("sum prod cumsum cumprod nansum")
"""As ``SAME`` for floating operands; bool and integers give int64. ``dtype=`` is honoured."""

PROMOTING: Final = _names(
    """
    add sub subtract mul multiply maximum minimum fmax fmin remainder fmod floor_divide pow
    bitwise_and bitwise_or bitwise_xor hypot copysign outer kron
    """
)
"""Binary functions that promote their first two operands."""

DIVIDING: Final = _names("div divide true_divide atan2")

PRODUCTS: Final = _names("matmul mm bmm mv dot inner tensordot addmm baddbmm addbmm addmv vdot")
"""Operands must agree, so the result has the dtype of the first tensor operand."""

LINEAR: Final = _names(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear"
)
"""Functions whose input and weight must agree; the result has the input's dtype."""

BOOLEAN: Final = _names(
    """
    eq ne lt le gt ge isnan isinf isfinite isin logical_and logical_or logical_not logical_xor any all
    isclose signbit greater less greater_equal less_equal not_equal isneginf isposinf
    """
)

INDEXING: Final = _names(
    """
    argmax argmin argsort nonzero bincount count_nonzero searchsorted bucketize argwhere multinomial one_hot
    """
)
"""These give int64."""

VALUES_AND_INDICES: Final = _names("topk sort max min cummax cummin kthvalue mode median nanmedian")
"""With a ``dim`` these give (same, int64)."""

SPLITTING: Final = _names(
    "split chunk tensor_split unbind unsafe_chunk unsafe_split hsplit vsplit split_with_sizes"
)
"""A sequence of tensors of the operand's dtype."""

JOINING: Final = _names("cat concat concatenate stack hstack vstack dstack column_stack row_stack")

CAST_METHODS: Final = {
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "bool": "bool",
    "char": "int8",
    "byte": "uint8",
}

SCALAR_METHODS: Final = {
    **dict.fromkeys(_names("size dim ndimension numel nelement element_size stride storage_offset"), "int"),
    **dict.fromkeys(_names("data_ptr get_device"), "int"),
    **dict.fromkeys(
        _names("is_contiguous is_floating_point is_complex equal allclose is_signed is_pinned"), "bool"
    ),
}

PRESERVING_ATTRIBUTES: Final = _names("T mT H mH data grad")
"""Attributes of a tensor that are tensors of its dtype."""

PLAIN_ATTRIBUTES: Final = _names(
    "shape ndim device layout is_cuda is_xpu is_cpu requires_grad itemsize nbytes is_meta is_sparse names"
)
"""Attributes of a tensor that have no dtype."""

KNOWN_METHODS: Final = (
    SAME
    | FLOATING
    | SUMMING
    | PROMOTING
    | DIVIDING
    | PRODUCTS
    | BOOLEAN
    | INDEXING
    | VALUES_AND_INDICES
    | SPLITTING
    | NEW_FACTORIES
    | frozenset(CAST_METHODS)
    | frozenset(SCALAR_METHODS)
    | _names("to type type_as where item tolist numpy unique unique_consecutive view_as_real view_as_complex")
)
"""Names of tensor methods that the analysis follows."""
