import subprocess
import sys

import numpy as np
import pytest
import torch

from cmpe.bounds.base import Work
from cmpe.bounds.settings import SETTINGS
from cmpe.errors import MethodError, how_to_install
from cmpe.tensor.device import as_array, batch_steps, device_named, scalar_on


def test_a_scalar_is_zero_in_double_precision():
    scalar = scalar_on("cpu")
    assert (scalar.item(), scalar.dtype, scalar.shape) == (0.0, torch.float64, ())
    assert device_named("cpu") == torch.device("cpu")


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_torch_lacks_is_one_sentence(device):
    with pytest.raises(MethodError, match=f"^device '{device}' cannot be used: ") as error:
        scalar_on(device)
    assert "\n" not in str(error.value)


def test_arrays_are_float64():
    assert as_array(torch.tensor([1, 2])).dtype == np.float64


def test_steps_end_with_the_work_with_the_clock_or_with_the_rows():
    assert list(batch_steps(Work(steps=3), 5, lambda: True)) == [1, 2, 3]
    assert len(list(batch_steps(Work(), 5, lambda: True))) == 300
    assert list(batch_steps(Work(time_limit=0.0), 5, lambda: True)) == []
    assert list(batch_steps(Work(), 5, lambda: False)) == []
    asked = iter([True, True, False])
    assert len(list(batch_steps(Work(), 5, lambda: next(asked)))) == 2 * SETTINGS.clock_checked


def test_without_torch_the_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from cmpe.errors import MissingExtra\n"
        "for name in ('device', 'bounds'):\n"
        "    try:\n        __import__('cmpe.tensor.' + name)\n"
        "    except MissingExtra as error:\n        print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == 2 * f"torch is not installed; {how_to_install('learn')}\n"
