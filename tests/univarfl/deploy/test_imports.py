"""What the programs that wait beside a training import: every process of a site starts with it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "univarfl.deploy.site.worker",
        "univarfl.deploy.coordinator",
        "univarfl.deploy.gate.server",
        "univarfl.deploy.keys",
        "univarfl.deploy.site.processes",
    ],
)
def test_a_program_that_trains_nothing_does_not_import_pytorch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
