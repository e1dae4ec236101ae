//! Renders a report as one self-contained HTML page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::blocks::{Block, Span, Style};
use super::sentences::{Headline, as_sentence};
use crate::visible::visible;

const STYLE: &str = include_str!("style.css");
/// If anything ever got past the escaping, it could not do anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Renders the page. The first block must be a section's title.
pub(super) fn draw(
    headline: &Headline,
    about: Option<&str>,
    blocks: &[Block],
    counts: &str,
) -> String {
    let verdict = visible(&headline.verdict);
    let titles = blocks.iter().filter_map(|block| match block {
        Block::Title(title) => Some(*title),
        _ => None,
    });
    let titles: Vec<&str> = titles.collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (verdict) ": Windows storage readiness" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header class=[class(headline.style)] {
                    h1 { (verdict) }
                    p { code { (headline.reason) } ": " (visible(&headline.sentences.join(" "))) }
                    @if let Some(about) = about { p { (visible(about)) } }
                }
                @if titles.len() > 1 {
                    nav aria-label="Contents" {
                        ul { @for title in titles { li { a href={ "#" (anchor(title)) } { (title) } } } }
                    }
                }
                main {
                    @for section in blocks.chunk_by(|_, next| !matches!(next, Block::Title(_))) {
                        section { (all(section)) }
                    }
                }
                footer { p { (visible(counts)) } }
            }
        }
    };
    page.into_string() + "\n"
}

/// Returns the name by which the contents refer to a section.
fn anchor(title: &str) -> String {
    let plain = title.to_lowercase().replace(',', "");
    plain.replace(' ', "-")
}

fn all(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (one(block)) } }
}

fn one(block: &Block) -> Markup {
    match block {
        Block::Title(title) => html! { h2 id=(anchor(title)) { (title) } },
        Block::Label(label) => html! { h4 { (label) } },
        Block::Text(spans) => html! { p { @for span in spans { (text(span)) } } },
        Block::Group { name, what, blocks } => html! {
            h3 { code { (visible(name)) } }
            @if let Some(what) = what { p { (visible(&as_sentence(what))) } }
            (all(blocks))
        },
        // The table scrolls within its own region, which the keyboard can reach.
        Block::Table {
            label,
            header,
            rows,
        } => html! {
            div class="scroll" role="region" tabindex="0" aria-label=(visible(label)) {
                table {
                    thead { tr { @for name in header { th scope="col" { (name) } } } }
                    tbody { @for row in rows { tr { @for span in row { (cell(span)) } } } }
                }
            }
        },
        Block::List(notes) => html! {
            ul {
                @for note in notes {
                    li {
                        (visible(&note.message)) " "
                        span class="where" { code { (visible(&note.code)) } ": " (visible(&note.places)) }
                        @if let Some(command) = &note.command { code class="command" { (visible(command)) } }
                    }
                }
            }
        },
    }
}

fn text(span: &Span) -> Markup {
    match (span.style, &*span.text) {
        (_, "") => html! { "none" },
        (Style::Name | Style::RowName, name) => html! { code { (visible(name)) } },
        (_, text) => html! { (visible(text)) },
    }
}

fn cell(span: &Span) -> Markup {
    match span.style {
        Style::RowName => html! { th scope="row" { (text(span)) } },
        style => html! { td class=[class(style)] { (text(span)) } },
    }
}

fn class(style: Style) -> Option<&'static str> {
    match style {
        Style::Good => Some("good"),
        Style::Bad => Some("bad"),
        Style::Warning => Some("warning"),
        Style::Plain | Style::Name | Style::RowName | Style::Strong => None,
    }
}
