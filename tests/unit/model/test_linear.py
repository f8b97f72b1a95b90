"""Padded products: the same numbers and gradients as torch's own."""

import pytest
import torch
from torch.nn import functional

from dragoman.model.linear import PaddedLinear, missing_rows


@pytest.mark.parametrize("shape", [(1, 6), (63, 6), (64, 6), (65, 6), (5, 13, 6), (8, 8, 6)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_torchs_linear_and_its_gradients(shape: tuple[int, ...], bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = PaddedLinear(6, 10, bias=bias).to(dtype)
    inputs, weights = torch.randn(shape, dtype=dtype), torch.randn(*shape[:-1], 10, dtype=dtype)
    results = []
    for product in (layer, lambda rows: functional.linear(rows, layer.weight, layer.bias)):
        layer.zero_grad()
        rows = inputs.clone().requires_grad_()
        output = product(rows)
        (output * weights).sum().backward()
        results.append([output.detach(), rows.grad, *(parameter.grad.clone() for parameter in layer.parameters())])
    for ours, torchs in zip(*results, strict=True):
        torch.testing.assert_close(ours, torchs)


def test_products_in_bfloat16_come_in_few_shapes() -> None:
    counts = range(1, 2049)
    rough, exact = torch.empty(0, dtype=torch.bfloat16), torch.empty(0)
    assert len({count + missing_rows(count, rough) for count in counts}) == 32
    assert all(0 <= missing_rows(count, rough) < 64 for count in counts)
    assert not any(missing_rows(count, exact) for count in counts)
