"""Builds the machine code of the search into the package, and fills the metadata that depends on its address.

Everything else is in pyproject.toml. On other systems than Linux on x86-64, or without numba or a C compiler, the
package is built without it. numba then compiles the code when it is first used.
"""

import os
import platform
import re
import runpy
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).parent
LIBRARIES = Path("dragoman", "engines", "compiled", "libraries")
BUILDS_CODE = (
    sys.platform == "linux"
    and platform.machine() == "x86_64"
    and find_spec("numba") is not None
    and shutil.which(os.environ.get("CC", "cc").split()[0]) is not None
)


class BuildMachineCode(Command):
    """A step of `build`."""

    description = "compile the search for several kinds of processors"
    user_options = []  # noqa: RUF012
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self):
        sys.path.insert(0, str(ROOT))
        from dragoman.kernels.compiling import build_libraries

        build_libraries((ROOT if self.editable_mode else Path(self.build_lib)) / LIBRARIES)

    def get_source_files(self):
        return []

    def get_outputs(self):
        return [str(path) for path in (Path(self.build_lib) / LIBRARIES).glob("*.so")]

    def get_output_mapping(self):
        return {}


class PlatformDistribution(Distribution):
    """A distribution whose wheel is for this platform if it has machine code."""

    def parse_config_files(self, *arguments, **options):
        super().parse_config_files(*arguments, **options)
        self.metadata.author = self.metadata.author or None  # instead of an empty line in the metadata

    def has_ext_modules(self):
        return BUILDS_CODE


class PlatformWheel(bdist_wheel):
    """A wheel for every version of Python: the libraries do not use Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


def published(readme, version, repository):
    """Return the description, authors and links of the package, for readers on other sites.

    A relative link of the README leads to the file as it was in this version. Without an address, links stay relative,
    which is right in the checkout that such a package is built from, and there are no authors or links.
    """
    described = {"long_description": readme, "long_description_content_type": "text/markdown"}
    if not repository:
        return described | {"author": "", "project_urls": {}}  # None would be an error: pyproject.toml names both

    def absolute(link):
        view = "raw" if link[1].endswith((".svg", ".png")) else "blob"
        return f"]({repository}/{view}/v{version}/{link[1]})"

    links = {
        "Source": repository,
        "Documentation": f"{repository}/blob/v{version}/docs/README.md",
        "Changelog": f"{repository}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    described["long_description"] = re.sub(r"\]\((?![a-z]+:|#)([^()\s]+)\)", absolute, readme)
    return described | {"author": "The Dragoman maintainers", "project_urls": links}


if BUILDS_CODE:
    build.sub_commands.append(("build_machine_code", None))
about = runpy.run_path(str(ROOT / "dragoman" / "version.py"))
setup(
    **published((ROOT / "README.md").read_text(encoding="utf-8"), about["__version__"], about["REPOSITORY"]),
    distclass=PlatformDistribution,
    cmdclass={"bdist_wheel": PlatformWheel, "build_machine_code": BuildMachineCode},
)
