//! The commands in README.md and the book. A comment before each block says which test types it, or why none does:
//!
//! ```text
//! <!-- run by: the_quickstart_works_to_its_last_line -->
//! <!-- not run: needs a registry -->
//! ```

use std::fs;
use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// What the comments begin with.
const RUN: &str = "<!-- run by: ";
const NOT_RUN: &str = "<!-- not run: ";

/// Languages of blocks that people type. Those in `console` begin with a prompt, and have output between them.
const LANGUAGES: [&str; 4] = ["sh", "bash", "shell", "console"];

/// A block of commands.
#[derive(Debug)]
struct Block {
    /// Page and line, for messages.
    place: String,
    /// What the comment before the block says, without its frame.
    run_by: Option<String>,
    not_run: Option<String>,
    /// The lines to type.
    script: String,
}

/// Returns the blocks of a page, named by its path in the repository.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut comment, mut open) = (Vec::new(), None, None);
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let line = text[..range.start].lines().count() + 1;
                open = Some((format!("{page}:{line}"), kind.into_static(), comment.take(), String::new()));
            }
            Event::Text(text) if open.is_some() => {
                open.iter_mut().for_each(|(.., content)| content.push_str(&text));
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take().and_then(block)),
            Event::Html(html) => comment = Some(html.trim().to_owned()),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            _ => comment = None,
        }
    }
    blocks
}

/// Returns the block if people type it.
fn block((place, kind, comment, content): (String, CodeBlockKind<'static>, Option<String>, String)) -> Option<Block> {
    let language = match &kind {
        CodeBlockKind::Fenced(language) => language.split(',').next().unwrap_or_default(),
        CodeBlockKind::Indented => "",
    };
    let is_typed = |line: &str| ["$ ", "kubectl ", "helm-operator "].iter().any(|start| line.starts_with(start));
    let script = match language {
        "sh" | "bash" | "shell" => content,
        _ if content.lines().any(is_typed) => {
            content.lines().filter_map(|line| line.strip_prefix("$ ")).map(|line| format!("{line}\n")).collect()
        }
        _ => return None,
    };
    assert!(LANGUAGES.contains(&language), "{place}: commands are in a fenced block of {}", LANGUAGES.join(", "));
    let comment = comment.unwrap_or_default();
    let says = |start| Some(comment.strip_prefix(start)?.strip_suffix(" -->")?.trim().to_owned());
    Some(Block { place, run_by: says(RUN), not_run: says(NOT_RUN), script })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn of_page(page: &str) -> Vec<Block> {
    blocks(page, &fs::read_to_string(root().join(page)).unwrap())
}

/// Returns what a test types for a page: the blocks that name the test, in their order.
pub(crate) fn run_by(page: &str, test: &str) -> Vec<String> {
    let named = of_page(page).into_iter().filter(|block| block.run_by.as_deref() == Some(test));
    let scripts: Vec<String> = named.map(|block| block.script).collect();
    assert!(!scripts.is_empty(), "no block of {page} names {test}");
    scripts
}

/// Returns the first fenced block of a page that contains this text, whatever its language.
pub(crate) fn block_with(page: &str, part: &str) -> String {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut content = None;
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => content = Some(String::new()),
            Event::Text(text) => content.iter_mut().for_each(|content| content.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => match content.take() {
                Some(content) if content.contains(part) => return content,
                _ => {}
            },
            _ => {}
        }
    }
    panic!("no block of {page} contains {part}");
}

/// Returns what is missing for a block, given the code of the tests.
fn missing(block: &Block, page: &str, code: &str) -> Option<String> {
    let place = &block.place;
    match (&block.run_by, &block.not_run) {
        (Some(test), None) => {
            let body = code.split(&format!("fn {test}()")).nth(1).and_then(|rest| rest.split("\n}\n").next());
            match body {
                None => Some(format!("{place}: there is no test {test}")),
                Some(body) if !body.contains(page) => Some(format!("{place}: {test} does not type {page}")),
                Some(_) => None,
            }
        }
        (None, Some(reason)) if !reason.is_empty() => None,
        _ => Some(format!("{place}: the line before says neither '{RUN}TEST -->' nor '{NOT_RUN}REASON -->'")),
    }
}

#[test]
fn each_block_of_commands_is_run_by_a_test_or_says_why_not() {
    let code = fs::read_to_string(root().join("tests/walks.rs")).unwrap();
    let docs =
        fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = docs.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.push("README.md".to_owned());
    let (mut faults, mut run, mut all) = (Vec::new(), 0, 0);
    for page in &pages {
        for block in of_page(page) {
            all += 1;
            run += usize::from(block.run_by.is_some());
            faults.extend(missing(&block, page, &code));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(run > 20, "only {run} of {all} blocks are run");
    eprintln!("{run} of {all} blocks are run");
}

#[test]
fn a_block_without_a_comment_or_with_an_unknown_test_is_named() {
    let code = "fn known() {\n    types(\"a.md\");\n}\n";
    let faults = |text: &str| -> Vec<String> {
        blocks("a.md", text).iter().filter_map(|block| missing(block, "a.md", code)).collect()
    };
    let block = "```sh\nls\n```\n";
    for (text, expected) in [
        (block.to_owned(), Some("a.md:1: the line before says neither")),
        (format!("{RUN}known -->\n{block}"), None),
        (format!("{NOT_RUN}needs a registry -->\n{block}"), None),
        (format!("1. {NOT_RUN}needs a registry -->\n   ```sh\n   ls\n   ```\n"), None),
        (format!("{NOT_RUN}-->\n{block}"), Some("a.md:2: the line before says neither")),
        (format!("{NOT_RUN}needs a registry -->\n\ntext\n\n{block}"), Some("a.md:5: the line before says neither")),
        (format!("{RUN}unknown -->\n{block}"), Some("a.md:2: there is no test unknown")),
        ("```yaml\nls: 1\n```\n".to_owned(), None),
    ] {
        let found = faults(&text);
        let fits = found.iter().map(|fault| expected.is_some_and(|expected| fault.starts_with(expected)));
        assert!(fits.clone().all(|fits| fits) && fits.count() == expected.iter().len(), "{text}: {found:?}");
    }
    let elsewhere = blocks("b.md", &format!("{RUN}known -->\n{block}"));
    assert_eq!(missing(&elsewhere[0], "b.md", code).unwrap(), "b.md:2: known does not type b.md");
}

#[test]
fn what_is_typed_after_a_prompt_is_separate_from_its_output() {
    let page = format!("{RUN}known -->\n```console\n$ ls\nfile\n$ cd x\n```\n");
    assert_eq!(blocks("a.md", &page)[0].script, "ls\ncd x\n");
}
