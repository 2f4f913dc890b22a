use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt as _;

use super::*;

fn setup(folder: &std::path::Path) -> Arc<Setup> {
    let public_url = "https://repair.example.org".parse().unwrap();
    Arc::new(Setup::new(folder.to_owned(), public_url).unwrap())
}

async fn get_page(setup: &Arc<Setup>, path: &str, key: Option<&str>) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::get(path);
    if let Some(key) = key {
        request = request.header("cookie", format!("{COOKIE}={key}"));
    }
    answer(setup, request.body(Body::empty()).unwrap()).await
}

async fn post_form(setup: &Arc<Setup>, form: &str) -> (StatusCode, HeaderMap, String) {
    let request = Request::post("/setup/review")
        .header("cookie", format!("other=1; {COOKIE}={}", setup.key))
        .header("origin", "http://127.0.0.1:8080")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(form.to_owned()));
    answer(setup, request.unwrap()).await
}

async fn answer(setup: &Arc<Setup>, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    let response = router(Arc::clone(setup)).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

const FORM: &str =
    "web=https%3A%2F%2Fgithub.com&organization=acme&public_url=https%3A%2F%2Frepair.example.org";

#[tokio::test]
async fn nobody_sets_up_without_the_key_that_was_printed() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    for path in ["/setup", "/setup?key=00", "/setup/done?code=1&state=2"] {
        assert_eq!(get_page(&setup, path, None).await.0, StatusCode::UNAUTHORIZED, "{path}");
    }
    let (status, headers, _) = get_page(&setup, &format!("/setup?key={}", setup.key), None).await;
    assert_eq!((status, &headers["location"]), (StatusCode::SEE_OTHER, &"/setup".parse().unwrap()));
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Lax; Path=/setup"), "{cookie}");
    let (status, headers, page) = get_page(&setup, "/setup", Some(&setup.key)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["cache-control"], "no-store");
    assert!(page.contains("https://repair.example.org") && !page.contains(&setup.key));
}

#[tokio::test]
async fn the_review_sends_the_manifest_to_the_chosen_github_alone() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    let (status, headers, page) = post_form(&setup, FORM).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("form-action https://github.com;"), "{policy}");
    assert!(page.contains("https://github.com/organizations/acme/settings/apps/new?state="), "{page}");
    assert!(page.contains("http://127.0.0.1:8080/setup/done"), "the browser comes back to where it was");
    assert!(!page.contains("workflows"));
    assert!(post_form(&setup, &format!("{FORM}&workflows=yes")).await.2.contains("workflows"));
}

#[tokio::test]
async fn an_address_over_which_secrets_would_be_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    for (form, fault) in [
        (FORM.replace("https%3A%2F%2Fgithub", "http%3A%2F%2Fgithub"), "must begin with https"),
        (FORM.replace("acme", "a%2Fb"), "letters, digits and hyphens"),
        (FORM.replace("https%3A%2F%2Frepair", "repair"), "is no URL"),
    ] {
        let (status, _, page) = post_form(&setup, &form).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(page.contains(fault), "{page}");
    }
}

#[tokio::test]
async fn an_answer_without_the_state_of_a_review_is_refused_and_each_state_is_good_once() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    let wanted = Wanted {
        web: "http://127.0.0.1:1".into(),
        organization: String::new(),
        public_url: "http://127.0.0.1:2".into(),
        workflows: None,
    };
    let state = setup.remember(wish(&wanted).unwrap()).unwrap();
    let path = format!("/setup/done?code=abc&state={state}");
    assert_eq!(
        get_page(&setup, "/setup/done?code=abc&state=1", Some(&setup.key)).await.0,
        StatusCode::FORBIDDEN
    );
    // Nobody listens there; the state is spent all the same.
    assert_eq!(get_page(&setup, &path, Some(&setup.key)).await.0, StatusCode::CONFLICT);
    assert_eq!(get_page(&setup, &path, Some(&setup.key)).await.0, StatusCode::FORBIDDEN);
    assert!(!github_app::folder(folder.path()).exists());
}
