//! Finds code blocks in Markdown, and the comments before them.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// A code block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The line in which it starts.
    pub line: usize,
    /// Its language; empty if the page does not name one.
    pub language: String,
    /// Its content.
    pub code: String,
    /// The heading above it.
    pub heading: String,
    /// The comments right before it.
    pub comments: Vec<String>,
}

/// Returns the code blocks of a page, from top to bottom.
pub fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut block) = (Vec::new(), Block::default());
    // The field that collects the current text.
    let mut part: Option<fn(&mut Block) -> &mut String> = None;
    for (event, range) in Parser::new(page).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                block.line = 1 + page[..range.start].matches('\n').count();
                block.language = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                part = Some(|block| &mut block.code);
            }
            Event::End(TagEnd::CodeBlock) => {
                part = None;
                blocks.push(block.clone());
                block.code.clear();
                block.comments.clear();
            }
            Event::Start(Tag::HtmlBlock) => block.comments.push(String::new()),
            Event::Html(html) => {
                if let Some(comment) = block.comments.last_mut() {
                    comment.push_str(&html);
                }
            }
            Event::Start(tag) => {
                // Anything between a comment and a block separates the two.
                block.comments.clear();
                if matches!(tag, Tag::Heading { .. }) {
                    block.heading.clear();
                    part = Some(|block| &mut block.heading);
                }
            }
            Event::End(TagEnd::Heading(_)) => part = None,
            Event::Text(text) | Event::Code(text) => {
                if let Some(part) = part {
                    part(&mut block).push_str(&text);
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Returns the commands of a block, each after `$ `, with the output that it shows.
pub fn examples(code: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut goes_on = false;
    for line in code.lines() {
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => {
                goes_on = command.ends_with('\\');
                examples.push((command.to_owned(), String::new()));
            }
            (None, Some((command, _))) if goes_on => {
                goes_on = line.ends_with('\\');
                command.extend(["\n", line]);
            }
            (None, Some((_, shown))) => shown.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    examples
}
