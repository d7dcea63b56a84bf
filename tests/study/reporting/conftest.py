"""Made-up results, written once."""

import pytest

from study.reporting.report import write_report
from study.reporting.results import read_results
from study.reporting.study import Study
from tests.study.reporting.synthetic import write_results


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("study") / "results")


@pytest.fixture(scope="session")
def results(folder):
    return read_results(folder)


@pytest.fixture(scope="session")
def study(results):
    return Study(results)


@pytest.fixture(scope="session")
def written(folder):
    """The report: as a value, its page, its folder of files."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    page, assets = folder.parent / "report.html", folder.parent / "assets"
    return write_report(folder, page, assets), page, assets
