"""CITATION.cff says what the package says."""

import importlib.metadata
import pathlib

import yaml

FILE = pathlib.Path(__file__).parents[1] / "CITATION.cff"


def test_the_citation_is_of_this_version_and_licence():
    cited, package = yaml.safe_load(FILE.read_text()), importlib.metadata.metadata("agentrl")
    assert str(cited["version"]) == package["Version"]
    # By `get`: importlib_metadata, where it is installed, raises on a field that is not there.
    assert cited["license"] == (package.get("License-Expression") or package.get("License"))
    # What the format requires: https://github.com/citation-file-format/citation-file-format
    assert cited["cff-version"] == "1.2.0" and cited["message"] and cited["title"]
    assert all("name" in author or "family-names" in author for author in cited["authors"])
