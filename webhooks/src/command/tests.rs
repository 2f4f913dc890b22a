use super::*;

/// Parses with LF and with CRLF line ends, which must mean the same.
fn both(markdown: &str) -> Result<Vec<Command>, Fault> {
    let lf = parse(markdown);
    assert_eq!(parse(&markdown.replace('\n', "\r\n")), lf, "CRLF differs for {markdown:?}");
    lf
}

#[track_caller]
fn none(markdown: &str) {
    assert_eq!(both(markdown), Ok(vec![]), "{markdown:?}");
}

#[test]
fn every_verb_is_read() {
    let run: RunId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
    let cases = [
        ("/whipstitch fix", Command::Fix),
        ("/whipstitch verify", Command::Verify),
        ("/whipstitch try", Command::Try),
        ("/whipstitch apply", Command::Apply { receipt: None }),
        ("/whipstitch apply 1a2b3c", Command::Apply { receipt: Some("1a2b3c".into()) }),
        ("/whipstitch apply sha256:1a2b3c", Command::Apply { receipt: Some("1a2b3c".into()) }),
        ("/whipstitch reject", Command::Reject),
        ("/whipstitch cancel", Command::Cancel { run: None }),
        (
            "/whipstitch cancel 01890a5d-ac96-774b-bcce-b302099a8057",
            Command::Cancel { run: Some(run.clone()) },
        ),
        ("/whipstitch resume 01890a5d-ac96-774b-bcce-b302099a8057", Command::Resume { run: Some(run) }),
        ("/whipstitch status", Command::Status),
        ("/whipstitch help", Command::Help),
        ("  /Whipstitch \t Fix  ", Command::Fix),
        ("Looks broken to me.\n/whipstitch fix\nThanks!", Command::Fix),
        ("- a list\n\n/whipstitch fix", Command::Fix),
        ("> a quote\n\n/whipstitch fix", Command::Fix),
    ];
    for (markdown, command) in cases {
        assert_eq!(both(markdown), Ok(vec![command]), "{markdown:?}");
    }
}

#[test]
fn c1_a_quote_never_commands() {
    none("> /whipstitch fix");
    none("> > /whipstitch fix");
    none("> - /whipstitch fix");
    none("> said\n/whipstitch fix");
    none("> [!NOTE]\n> /whipstitch fix");
    none("- /whipstitch fix");
    none("- item\n  /whipstitch fix");
    none("- item\n/whipstitch fix");
    none("1. > /whipstitch fix");
    none("- [ ] /whipstitch fix");
}

#[test]
fn c2_code_never_commands() {
    none("`/whipstitch fix`");
    none("``\n/whipstitch fix\n``");
    none("    /whipstitch fix");
    none("\t/whipstitch fix");
    none("```\n/whipstitch fix\n```");
    none("~~~\n/whipstitch fix\n~~~");
    none("```text\n/whipstitch fix");
    none("~~~~\n~~~\n/whipstitch fix");
    none("before\n```\n/whipstitch fix\n```\nafter");
    none("$$\n/whipstitch fix\n$$");
}

#[test]
fn c3_html_comments_and_links_never_command() {
    none("<!-- /whipstitch fix -->");
    none("<!--\n/whipstitch fix\n-->");
    none("<!--\n\n/whipstitch fix\n\n-->");
    none("<!-- never closed\n\n/whipstitch fix");
    none("text <!--\n/whipstitch fix\n--> text");
    none("<div>\n/whipstitch fix\n</div>");
    none("<pre>\n\n/whipstitch fix\n\n</pre>");
    none("[/whipstitch fix](https://example.org)");
    none("[text](https://example.org\n\"\n/whipstitch fix\n\")");
    none("<https://example.org/whipstitch/fix>");
    none("https://example.org/whipstitch fix");
    none("[/whipstitch fix]: https://example.org");
    none("![/whipstitch fix](a.png)");
}

#[test]
fn what_is_decorated_or_escaped_never_commands() {
    none("*/whipstitch fix*");
    none("**/whipstitch** fix");
    none("~~/whipstitch fix~~");
    none("# /whipstitch fix");
    none("/whipstitch fix\n===");
    none("| /whipstitch fix |\n|---|\n| /whipstitch fix |");
    none("\\/whipstitch fix");
    none("&#47;whipstitch fix");
    none("please /whipstitch fix");
    none("/whipstitching fix");
    none("[^1]\n\n[^1]: /whipstitch fix");
    none("*emphasis* /whipstitch fix");
}

#[test]
fn c4_crlf_separates_commands_and_is_in_no_argument() {
    assert_eq!(parse("/whipstitch fix\r\n\r\ntext"), Ok(vec![Command::Fix]));
    assert_eq!(
        parse("/whipstitch verify\r\n/whipstitch status\r\n"),
        Ok(vec![Command::Verify, Command::Status])
    );
    assert_eq!(
        parse("/whipstitch apply 1a2b3c\r\n"),
        Ok(vec![Command::Apply { receipt: Some("1a2b3c".into()) }])
    );
    // A hard break, by two spaces or a backslash, is no part of the command either.
    assert_eq!(
        parse("/whipstitch fix  \r\n/whipstitch verify\\\r\n/whipstitch status"),
        Ok(vec![Command::Fix, Command::Verify, Command::Status])
    );
}

fn bad(verb: &'static str, argument: &str) -> Fault {
    Fault::BadArgument { verb, argument: Quoted::new(argument) }
}

#[test]
fn c5_what_is_not_in_the_grammar_runs_nothing() {
    let cases = [
        ("/whipstitch", Fault::NoVerb),
        ("/whipstitch mend", Fault::UnknownVerb(Quoted::new("mend"))),
        ("/whipstitch fix everything", bad("fix", "everything")),
        ("/whipstitch fix `now`", bad("fix", "`now`")),
        ("/whipstitch fix *now*", bad("fix", "*now*")),
        ("/whipstitch fix <!-- now -->", bad("fix", "<!--")),
        ("/whipstitch apply 1a2b", bad("apply", "1a2b")),
        ("/whipstitch apply 1A2B3C", bad("apply", "1A2B3C")),
        ("/whipstitch apply 1a2b3c 1a2b3c", Fault::DoubledArgument { verb: "apply" }),
        ("/whipstitch cancel everything", bad("cancel", "everything")),
        ("/whipstitch fix\n/whipstitch mend", Fault::UnknownVerb(Quoted::new("mend"))),
    ];
    for (markdown, fault) in cases {
        assert_eq!(both(markdown), Err(fault), "{markdown:?}");
    }
}

#[test]
fn c10_too_many_commands_run_nothing() {
    let all = ["fix", "verify", "try", "status"].map(|verb| format!("/whipstitch {verb}\n")).concat();
    assert_eq!(both(&all), Err(Fault::TooMany));
    assert_eq!(both(&"/whipstitch fix\n".repeat(500)), Ok(vec![Command::Fix]));
    let huge = format!("{}\n\n/whipstitch fix", "x ".repeat(200_000));
    assert_eq!(parse(&huge), Err(Fault::TooLong));
    assert_eq!(parse(&"x ".repeat(200_000)), Ok(vec![]));
}

#[test]
fn what_is_quoted_back_can_neither_end_the_code_span_nor_mention_anybody() {
    assert_eq!(Quoted::new("a`b\n@c<d\u{202e}").to_string(), "a?b??c?d?");
    assert_eq!(Quoted::new(&"é".repeat(100)).to_string(), "?".repeat(40));
}

proptest::proptest! {
    #[test]
    fn no_comment_makes_the_parser_fail(markdown in "(/whipstitch |fix|[>`~*_\\[\\]()<!\\-# \r\n\t]|é|\\PC){0,60}") {
        let _ = parse(&markdown);
    }

    #[test]
    fn quoting_a_comment_takes_its_commands_away(markdown in "(/whipstitch fix|[a-z>`~* ]|\n){0,40}") {
        let quoted: String = markdown.lines().map(|line| format!("> {line}\n")).collect();
        proptest::prop_assert_eq!(parse(&quoted), Ok(vec![]));
    }
}
