//! Comments: what commands, what only looks like a command, and who is heard.

use e2e::github::{Answered, Failure, Fault};
use e2e::scripted::Script;
use e2e::story::{On, Post, World, each_forge};
use jobs::digest::Digest;
use jobs::forge::Role;
use serde_json::{Value, json};

/// Comments that must neither start anything nor be answered.
async fn silent(comments: &[&str]) {
    each_forge(async |world| {
        for comment in comments {
            world.say("ada", comment).await;
            assert!(world.runs().await.is_empty(), "{comment:?} started a run");
            assert!(world.replies().is_empty(), "{comment:?} was answered");
        }
    })
    .await;
}

#[tokio::test]
async fn c1_a_quoted_command_is_none() {
    silent(&["> /whipstitch fix", "> > /whipstitch fix", "> - /whipstitch fix\n>   - /whipstitch fix"]).await;
}

#[tokio::test]
async fn c2_a_command_in_code_is_none() {
    silent(&[
        "`/whipstitch fix`",
        "    /whipstitch fix",
        "```\n/whipstitch fix\n```",
        "```\r\n/whipstitch fix\r\n```\r\n",
        "~~~sh\r\n/whipstitch fix\r\n~~~",
        "```\n/whipstitch fix",
    ])
    .await;
}

#[tokio::test]
async fn c3_a_command_in_a_comment_or_link_is_none() {
    silent(&[
        "<!-- a template\n/whipstitch fix\n-->",
        "[/whipstitch fix](https://example.org)",
        "see https://example.org/whipstitch fix",
    ])
    .await;
}

#[tokio::test]
async fn c4_commands_with_the_web_pages_line_ends_are_read() {
    each_forge(async |world| {
        world.say("ada", "/whipstitch fix\r\n\r\nplease, it is red").await;
        let run = world.run(Script::Clean).await;
        world.say("ada", &format!("/whipstitch status\r\n/whipstitch cancel {run}\r\n")).await;
        let reply = world.reply();
        assert!(reply.contains("| succeeded |"), "the first command was done: {reply}");
        assert!(reply.contains(&format!("there is no run to cancel `{run}`")), "and the second: {reply}");
        assert!(!reply.contains('\r'));
    })
    .await;
}

#[tokio::test]
async fn c5_what_is_not_understood_gets_one_answer_that_commands_nothing() {
    each_forge(async |world| {
        for (told, comment) in
            ["/whipstitch mend", "/whipstitch", "/whipstitch apply 123456 654321", "/whipstitch cancel all"]
                .iter()
                .enumerate()
        {
            world.say("ada", comment).await;
            let replies = world.replies();
            assert_eq!(replies.len(), told + 1, "{comment}");
            let reply = &replies[told];
            assert!(reply.contains("`/whipstitch fix`"), "{reply}");
            assert_eq!(webhooks::command::parse(reply), Ok(Vec::new()), "{reply}");
        }
        assert!(world.runs().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn c6_bots_and_our_own_comments_are_not_heard() {
    let world = World::new(On::GitHub).await.unwrap();
    world.set_role("whipstitch-test[bot]", Role::Admin);
    world.set_role("whipstitch-tost[bot]", Role::Admin);
    for login in ["whipstitch-test[bot]", "whipstitch-tost[bot]", "dependabot[bot]"] {
        world.say(login, "/whipstitch fix").await;
    }
    // An app that acts in a person's name is still an app.
    let mut payload = body(&world.comment("ada", "/whipstitch fix"));
    payload["comment"]["performed_via_github_app"] = json!({ "id": 5 });
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    assert!(world.runs().await.is_empty() && world.replies().is_empty());
}

#[tokio::test]
async fn c7_an_edit_starts_nothing_and_authorizes_nobody() {
    let world = World::new(On::GitHub).await.unwrap();
    let mut payload = body(&world.comment("rita", "/whipstitch fix"));
    payload["action"] = json!("edited");
    payload["sender"] = body(&world.comment("ada", "x"))["sender"].clone();
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    assert!(world.runs().await.is_empty());
    // Created by one with a role, though the comment's author is said to be another.
    payload["action"] = json!("created");
    payload["sender"] = body(&world.comment("rita", "x"))["sender"].clone();
    payload["comment"]["user"] = body(&world.comment("grace", "x"))["sender"].clone();
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    assert!(world.runs().await.is_empty(), "the sender counts, never the comment's author");
    assert!(world.reply().contains("`rita` has the role `read`"), "{}", world.reply());
}

#[tokio::test]
async fn c8_the_job_keeps_the_digest_of_the_words_that_were_admitted() {
    let world = World::new(On::GitHub).await.unwrap();
    let words = "/whipstitch fix\n\nthe words of then";
    let post = world.comment("ada", words);
    world.deliver(&post).await;
    let mut payload = body(&post);
    payload["action"] = json!("edited");
    payload["comment"]["body"] = json!("/whipstitch cancel");
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    payload["action"] = json!("deleted");
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    let runs = world.runs().await;
    assert_eq!((runs.len(), &runs[0].halt), (1, &None));
    assert_eq!(runs[0].job.request.text, Digest::of(words));
}

#[tokio::test]
async fn c9_the_forges_own_answer_decides_and_no_answer_is_a_no() {
    let world = World::new(On::GitHub).await.unwrap();
    let mut payload = body(&world.comment("rita", "/whipstitch fix"));
    payload["comment"]["author_association"] = json!("OWNER");
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    assert!(world.runs().await.is_empty(), "an association is no role");
    let mut payload = body(&world.comment("ada", "/whipstitch fix"));
    payload["comment"]["author_association"] = json!("NONE");
    world.deliver(&Post::of_github(&world.github().event("issue_comment", &payload))).await;
    assert_eq!(world.runs().await.len(), 1);
    for failure in [
        Failure::Answer(Answered { status: 404, headers: Vec::new(), message: "Not Found".into() }),
        Failure::Answer(Answered::server_error(500)),
        Failure::LostRequest,
    ] {
        let world = World::new(On::GitHub).await.unwrap();
        world.github().fail(Fault {
            method: "GET",
            path: "/collaborators/ada".into(),
            times: 1_000,
            failure,
        });
        world.say("ada", "/whipstitch fix").await;
        world.wait(700_000).await;
        assert!(world.runs().await.is_empty());
        assert!(world.reply().contains("`fix` was not done"), "{}", world.reply());
    }
}

#[tokio::test]
async fn c10_a_flood_gets_one_polite_answer() {
    each_forge(async |world| {
        for _ in 0..14 {
            world.say("rita", "/whipstitch status").await;
        }
        let replies = world.replies();
        assert_eq!(replies.len(), 11);
        assert!(replies[10].contains("more than can be done at once"), "{}", replies[10]);
        world.say("ada", "/whipstitch fix").await;
        assert_eq!(world.runs().await.len(), 1, "others are heard");
    })
    .await;
}

#[tokio::test]
async fn c10_more_commands_than_a_comment_may_hold_do_nothing() {
    each_forge(async |world| {
        world.say("ada", "/whipstitch fix\n/whipstitch try\n/whipstitch verify\n/whipstitch status").await;
        assert!(world.runs().await.is_empty());
        assert!(world.reply().contains("nothing was started"), "{}", world.reply());
    })
    .await;
}

fn body(post: &Post) -> Value {
    serde_json::from_slice(&post.body).unwrap()
}
