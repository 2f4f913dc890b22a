//! .NET: one SDK folder, quiet and without its first-run greetings.

use std::path::Path;

use super::host::Host;
use super::{Family, Part};
use crate::sandbox::HOME;

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    let own_folder = |real: &Path| real.parent().unwrap_or(Path::new("/")).to_owned();
    let found = host
        .program("dotnet")
        .is_some_and(|program| part.take(Family::Dotnet, "dotnet", &program, own_folder));
    if !found {
        part.missing(
            Family::Dotnet,
            "dotnet",
            "install the .NET SDK, and put `dotnet` on the service's PATH",
        );
        return part;
    }
    let set = [
        ("DOTNET_CLI_TELEMETRY_OPTOUT", "1".to_owned()),
        ("DOTNET_NOLOGO", "1".to_owned()),
        ("DOTNET_SKIP_FIRST_TIME_EXPERIENCE", "1".to_owned()),
        ("DOTNET_CLI_HOME", HOME.to_owned()),
        ("NUGET_PACKAGES", format!("{HOME}/.nuget/packages")),
    ];
    part.environment.extend(set.map(|(name, value)| (name.to_owned(), value)));
    part
}
