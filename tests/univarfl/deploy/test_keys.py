"""Certificates and keys: their hosts and signatures, their file modes; none is overwritten."""

import os
import ssl
import tomllib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from task.errors import ConfigError, SiteError
from task.site import Site
from univarfl.deploy import keys
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace, host_and_port
from univarfl.deploy.site_keys import make_site


def test_the_certificate_is_for_the_hosts_and_signed_by_the_authority(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["fl.example.org", "10.0.0.5"])
    authority = x509.load_pem_x509_certificate(place.authority.read_bytes())
    signed = x509.load_pem_x509_certificate(place.certificate.read_bytes())
    signed.verify_directly_issued_by(authority)
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org", "localhost"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["10.0.0.5", "127.0.0.1"]
    ssl.create_default_context(cafile=str(place.authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place.certificate, place.key)
    assert {path.stat().st_mode & 0o777 for path in (place.key, place.authority_key)} == {0o600}


def test_only_the_authority_may_sign_certificates(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["localhost"])
    for path, may_sign in ((place.authority, True), (place.certificate, False)):
        found = x509.load_pem_x509_certificate(path.read_bytes()).extensions
        assert found.get_extension_for_class(x509.BasicConstraints).value.ca == may_sign
        assert found.get_extension_for_class(x509.KeyUsage).value.key_cert_sign == may_sign


def test_a_site_gets_a_key_pair_on_the_curve_that_flower_requires(tmp_path: Path) -> None:
    place = SitePlace(tmp_path / "site")
    (tmp_path / "it's \\ här").mkdir()
    make_site(place, "clinic_a", tmp_path / "it's \\ här")
    key = load_ssh_private_key(place.key("clinic_a").read_bytes(), None)
    public = load_ssh_public_key(place.public_key("clinic_a").read_bytes())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp384r1"
    assert key.public_key() == public
    assert place.key("clinic_a").stat().st_mode & 0o777 == 0o600
    site = Site.from_node_config(tomllib.loads(place.settings.read_text()))
    assert (site.name, site.directory) == ("clinic_a", str(tmp_path / "it's \\ här"))
    assert site.max_norm is None
    assert not site.tell_labels


def test_site_toml_shows_every_setting(tmp_path: Path) -> None:
    """Every line of site.toml, the examples among them, is a setting that is understood."""
    place = SitePlace(tmp_path)
    make_site(place, "a", tmp_path)
    lines = place.settings.read_text().replace("\n# ", "\n").split("\n", 1)[1]
    site = Site.from_node_config(tomllib.loads(lines))
    assert site.model_fields_set == set(Site.model_fields) - {"key"}  # deploy site sets it


def test_a_sites_key_is_never_overwritten(tmp_path: Path) -> None:
    site = SitePlace(tmp_path / "s")
    make_site(site, "a", tmp_path)
    with pytest.raises(ConfigError, match="exists already"):
        make_site(site, "a", tmp_path)


def test_another_key_is_for_the_site_and_the_images_of_the_settings(tmp_path: Path) -> None:
    site = SitePlace(tmp_path / "s")
    make_site(site, "clinic", tmp_path)
    site.key("clinic").unlink()
    with pytest.raises(ConfigError, match=r"--site=klinik: .*site.toml names the site clinic"):
        make_site(site, "klinik", tmp_path)
    with pytest.raises(ConfigError, match=r"--data=.*site.toml has .*; change it there first"):
        make_site(site, "clinic", tmp_path / "s")
    settings = site.settings.read_bytes()
    make_site(site, "clinic", tmp_path)
    assert site.settings.read_bytes() == settings
    assert site.key("clinic").exists()


def test_a_directory_whose_name_no_settings_can_hold_is_refused(tmp_path: Path) -> None:
    images = tmp_path / "bilder\udcfc"  # a byte that is not UTF-8
    images.mkdir()
    site = SitePlace(tmp_path / "s")
    with pytest.raises(ConfigError, match="must have a name in UTF-8"):
        make_site(site, "clinic", images)
    assert not site.directory.exists()


def test_a_site_without_a_data_directory_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"--data=.*nowhere: must be a directory"):
        make_site(SitePlace(tmp_path / "s"), "a", tmp_path / "nowhere")
    assert not (tmp_path / "s").exists()


def test_a_host_can_be_added_without_new_files_at_the_sites(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["old.example.org"])
    given = place.authority.read_bytes()
    make_coordinator(place, ["new.example.org", "10.0.0.5"])
    assert place.authority.read_bytes() == given
    signed = x509.load_pem_x509_certificate(place.certificate.read_bytes())
    signed.verify_directly_issued_by(x509.load_pem_x509_certificate(given))
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    added = ["new.example.org", "old.example.org", "localhost"]
    assert names.get_values_for_type(x509.DNSName) == added
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["10.0.0.5", "127.0.0.1"]
    assert place.key.stat().st_mode & 0o777 == 0o600


def test_the_hosts_of_another_authoritys_certificate_are_not_taken_over(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["old.example.org"])
    place.authority.unlink()
    place.authority_key.unlink()
    make_coordinator(place, ["new.example.org"])
    signed = x509.load_pem_x509_certificate(place.certificate.read_bytes())
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["new.example.org", "localhost"]


def test_a_damaged_authority_is_refused_and_not_replaced(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["h"])
    place.authority_key.write_text("junk")
    with pytest.raises(ConfigError, match="delete both to make a new authority for all sites"):
        make_coordinator(place, ["h"])


def test_an_authority_whose_key_is_kept_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["h"])
    given = place.authority.read_bytes()
    place.authority_key.unlink()
    with pytest.raises(ConfigError, match=r"is missing, and ca\.crt is there; put it back"):
        make_coordinator(place, ["h"])
    assert place.authority.read_bytes() == given


def test_an_authority_that_has_expired_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    monkeypatch.setattr(keys, "DAYS", 0)
    make_coordinator(place, ["h"])
    with pytest.raises(ConfigError, match=r"ca\.crt has expired on .*; restore it .* or delete"):
        make_coordinator(place, ["h"])


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a b", "a" * 65])
def test_a_sites_name_must_be_usable_as_a_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="--site="):
        make_site(SitePlace(tmp_path), name, tmp_path)


def test_addresses() -> None:
    assert host_and_port("fl.example.org") == ("fl.example.org", 8000)
    assert host_and_port("[::1]:9000") == ("::1", 9000)
    assert host_and_port("[::1]") == ("::1", 8000)
    for wrong in ("https://x:1", ":80", "x:y", "x:" + "9" * 5000):
        with pytest.raises(ConfigError, match="must be HOST:PORT"):
            host_and_port(wrong)


def test_a_setting_that_a_site_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(SiteError, match=r"site x, max-nrom: is not a setting of a site; choose"):
        Site.from_node_config({"site": "x", "data-dir": "/x", "max-nrom": 1.0})


@pytest.mark.parametrize("exists", [False, True])
def test_only_the_owner_opens_the_coordinators_directories(tmp_path: Path, exists: bool) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    before = os.umask(0o002)
    try:
        if exists:
            place.sites.mkdir(parents=True)
        make_coordinator(place, ["localhost"])
    finally:
        os.umask(before)
    rights = {path.stat().st_mode & 0o777 for path in (place.directory, place.sites)}
    assert rights == {0o700}


def test_others_cannot_write_to_a_sites_directory_that_was_there(tmp_path: Path) -> None:
    site = SitePlace(tmp_path / "s")
    site.directory.mkdir()
    site.directory.chmod(0o775)
    make_site(site, "a", tmp_path)
    assert site.directory.stat().st_mode & 0o777 == 0o755
