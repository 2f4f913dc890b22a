//! Where people find a run: the dashboard's addresses.

use jobs::id::RunId;
use url::Url;

/// The page of a run.
pub fn run(public_url: &Url, run: &RunId) -> Option<String> {
    below(public_url, &["runs", run.as_str()])
}

/// The bundle of a run's receipts.
pub fn bundle(public_url: &Url, run: &RunId) -> Option<String> {
    below(public_url, &["runs", run.as_str(), "bundle"])
}

fn below(public_url: &Url, parts: &[&str]) -> Option<String> {
    let mut url = public_url.clone();
    url.path_segments_mut().ok()?.pop_if_empty().extend(parts);
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_with_or_without_a_folder_gives_the_page() {
        let id: RunId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        for base in ["https://x.example", "https://x.example/"] {
            let base = base.parse().unwrap();
            assert_eq!(run(&base, &id).unwrap(), format!("https://x.example/runs/{id}"));
        }
        let base = "https://x.example/a/".parse().unwrap();
        assert_eq!(bundle(&base, &id).unwrap(), format!("https://x.example/a/runs/{id}/bundle"));
    }
}
