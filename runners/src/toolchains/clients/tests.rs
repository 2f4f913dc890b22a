//! Settings of the kinds that operators have, and what of them reaches a container.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::*;

fn host(home: &Path, variables: &[(&str, &str)]) -> Host {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Host { path: OsString::new(), home: home.to_owned(), variables }
}

fn hosts(settings: &ClientSettings) -> Vec<String> {
    settings.hosts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_url_loses_its_credentials_and_must_be_reached_by_tls() {
    let (host, clean) = reachable("sparse+https://user:secret@mirror.example:8443/index/").unwrap();
    assert_eq!(host.to_string(), "mirror.example:8443");
    assert_eq!(clean, "sparse+https://mirror.example:8443/index/");
    for wrong in
        ["http://mirror.example/", "file:///srv/mirror", "https://10.0.0.1/", "mirror", "ssh://git@host/x"]
    {
        assert!(reachable(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn cargos_source_replacement_is_passed_on_without_tokens_and_folders() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".cargo")).unwrap();
    let config = "[source.crates-io]\nreplace-with = \"mirror\"\n\n[source.mirror]\n\
        registry = \"sparse+https://u:secret@mirror.example/crates/\"\n\n[source.local]\ndirectory = \"/srv/x\"\n\n\
        [registries.own]\nindex = \"sparse+https://own.example/index/\"\ntoken = \"secret\"\n\n\
        [build]\nrustc-wrapper = \"/srv/wrapper\"\n";
    std::fs::write(home.path().join(".cargo/config.toml"), config).unwrap();
    let mut settings = ClientSettings::default();
    cargo::read(&host(home.path(), &[]), &mut settings);
    assert_eq!(hosts(&settings), ["mirror.example:443", "own.example:443"]);
    assert_eq!(
        settings.cargo_indexes,
        ["sparse+https://mirror.example/crates/", "sparse+https://own.example/index/"]
    );
    let made = &settings.files[0];
    assert_eq!(made.path, Path::new(".cargo/config.toml"));
    for absent in ["secret", "directory", "wrapper", "token"] {
        assert!(!made.content.contains(absent), "{}", made.content);
    }
    assert!(made.content.contains("replace-with = \"mirror\""), "{}", made.content);
    assert_eq!(settings.notes.len(), 1, "{:?}", settings.notes);
}

#[test]
fn the_index_of_a_program_is_found_among_its_bytes() {
    let program = b"\0\x01sparse+https://\0sparse+https://index.example/next text\0";
    assert_eq!(cargo::index_in(program).as_deref(), Some("sparse+https://index.example/"));
    assert_eq!(cargo::index_in(b"sparse+https://no-end"), None);
}

#[test]
fn pips_index_comes_from_its_section_and_its_variables_are_stronger() {
    let text = "[list]\nindex-url = https://wrong.example/\n[global]\n# note\nindex_url = https://one.example/simple\n\
        extra-index-url =\n    https://two.example/simple\n    https://three.example/simple\n";
    assert_eq!(pip::value(text, "index-url").as_deref(), Some("https://one.example/simple"));
    assert_eq!(
        pip::value(text, "extra-index-url").as_deref(),
        Some("https://two.example/simple https://three.example/simple")
    );
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".pip")).unwrap();
    std::fs::write(home.path().join(".pip/pip.conf"), text).unwrap();
    let mut settings = ClientSettings::default();
    pip::read(&host(home.path(), &[("PIP_INDEX_URL", "https://u:p@four.example/simple")]), &mut settings);
    assert_eq!(hosts(&settings), ["four.example:443", "three.example:443", "two.example:443"]);
    assert_eq!(settings.environment["PIP_INDEX_URL"], "https://four.example/simple");
}

#[test]
fn the_defaults_of_pip_and_npm_are_read_from_their_own_code() {
    let source = "PyPI = PackageIndex(\"https://index.example/\", file_storage_domain=\"files.example\")\n\
        TestPyPI = PackageIndex(\"https://test.example/\")\n";
    let found = pip::defaults_in(source).unwrap();
    assert_eq!(found, ("https://index.example/".to_owned(), "files.example".to_owned()));
    let definitions =
        "  hint: 'Usage:',\n  registry: new Definition('registry', {\n    default: 'https://npm.example/',\n";
    assert_eq!(npm::default_in(definitions).as_deref(), Some("https://npm.example/"));
}

#[test]
fn of_npms_settings_only_registries_are_taken() {
    let text = "registry=https://one.example/\n//one.example/:_authToken=secret\n@own:registry = \"https://two.example/\"\n\
        always-auth=true\n; @no:registry=x\n";
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".npmrc"), text).unwrap();
    let mut settings = ClientSettings::default();
    npm::read(&host(home.path(), &[]), &mut settings);
    assert_eq!(hosts(&settings), ["one.example:443", "two.example:443"]);
    assert_eq!(
        settings.files[0].content,
        "@own:registry=https://two.example/\nregistry=https://one.example/\n"
    );
}
