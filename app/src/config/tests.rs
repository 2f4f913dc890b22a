use super::*;

fn none(_: &str) -> Option<String> {
    None
}

fn faults(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("whipstitch.toml");
    std::fs::write(&file, text).unwrap();
    let found = Config::load(Some(&file), none).err().unwrap_or_default();
    let shown = folder.path().display().to_string();
    found.iter().map(|fault| fault.to_string().replace(&shown, "DIR")).collect()
}

#[test]
fn limits_that_must_hold_are_known_by_name() {
    let config: Config = toml::from_str("[sandbox]\nrequire = [\"memory\", \"disk\"]\n").unwrap();
    assert_eq!(config.sandbox.require, [runners::sandbox::Limit::Memory, runners::sandbox::Limit::Disk]);
    assert!(toml::from_str::<Config>("[sandbox]\nrequire = [\"luck\"]\n").is_err());
}

#[test]
fn a_config_without_a_forge_is_one_that_waits_for_its_set_up() {
    assert_eq!(faults(""), Vec::<String>::new());
}

#[test]
fn an_unknown_key_is_named_by_line_and_column() {
    let found = faults("[server]\nlisten = \"127.0.0.1:1\"\nworkers = 3\n");
    assert!(found[0].starts_with("DIR/whipstitch.toml:3:1: unknown field `workers`"), "{found:?}");
}

#[test]
fn an_empty_or_missing_webhook_secret_is_refused() {
    let found = faults("[local]\nfolder = \"forge\"\n");
    insta::assert_snapshot!(found.join("\n"), @"local.webhook_secret_file: no secret: name its file here, or set WHIPSTITCH_LOCAL_WEBHOOK_SECRET");
    let error =
        secret("local.webhook_secret_file", None, |_| Some(" \n".to_owned()), LOCAL_SECRET).unwrap_err();
    assert_eq!(error.message, "the secret in WHIPSTITCH_LOCAL_WEBHOOK_SECRET is empty");
}

#[test]
fn every_fault_is_told_at_once() {
    let text = "[server]\nconcurrency = 0\ndatabase = \"mysql://x\"\n[egress]\nhosts = [\"no port\"]\ntrusted_networks = [\"10.0.0.0/99\"]\n[github]\napp_id = 0\n";
    let places: Vec<String> =
        faults(text).iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        places,
        [
            "server.concurrency",
            "server.database",
            "github.app_id",
            "github.private_key_file",
            "github.webhook_secret_file",
            "egress.hosts",
            "egress.trusted_networks"
        ]
    );
}

#[test]
fn variables_win_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "[server]\nlisten = \"127.0.0.1:1\"\n[local]\nfolder = \"forge\"\n").unwrap();
    let variables = |name: &str| match name {
        "WHIPSTITCH_LISTEN" => Some("127.0.0.1:2".to_owned()),
        LOCAL_SECRET => Some("s".to_owned()),
        _ => None,
    };
    let config = Config::load(Some(&file), variables).unwrap();
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.local.unwrap().folder, folder.path().join("forge"));
}

#[test]
fn a_signing_key_in_the_variable_is_checked_and_never_shown() {
    let variables = |name: &str| match name {
        crate::keys::VARIABLE => Some("mine alone".to_owned()),
        LOCAL_SECRET => Some("s".to_owned()),
        _ => None,
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "[local]\nfolder = \"forge\"\n").unwrap();
    let found = Config::load(Some(&file), variables).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].place, "WHIPSTITCH_SIGNING_KEY");
    assert!(found[0].message.contains("PKCS#8") && !found[0].message.contains("mine alone"), "{found:?}");
}
