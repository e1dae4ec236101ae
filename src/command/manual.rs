//! The manual pages: what clap knows of a command, in the sections that readers of manual pages look for.

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// When the pages last changed in a way that matters to their readers.
const DATE: &str = "2026-11-22";
/// What a paragraph has in it that tells exit statuses.
const EXIT_STATUS: &str = "exit status is";
/// What a command's examples begin with.
const EXAMPLES: &str = "Examples";

/// Writes a page for each command that is shown.
pub fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default().to_owned();
    write_page(&command, &version, folder)
}

fn write_page(command: &Command, version: &str, folder: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_page(sub, version, folder)?;
    }
    let path = folder.join(format!("{}.1", name(command)));
    std::fs::write(path, page(command.clone(), version)?)
}

/// The page of the whole program by itself, which refers to pages that may not be installed.
pub fn only_page(command: Command) -> io::Result<Vec<u8>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default().to_owned();
    let mut page = page(command.clone(), &version)?;
    let mut notes = Roff::new();
    notes.control("SH", ["NOTES"]);
    notes.text([roman(format!(
        "The pages of the commands are there once {} man --dest-dir DIR has written them, to a folder man1 of your \
         MANPATH. Each command has the same with --help.",
        command.get_bin_name().unwrap_or_else(|| command.get_name())
    ))]);
    notes.to_writer(&mut page)?;
    Ok(page)
}

fn page(command: Command, version: &str) -> io::Result<Vec<u8>> {
    let name = name(&command).to_owned();
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let (statuses, description): (Vec<&str>, Vec<&str>) = about
        .split("\n\n")
        .partition(|paragraph| paragraph.contains(EXIT_STATUS));
    let examples = command.get_after_help().map(ToString::to_string);
    let has_commands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    let man = Man::new(command);

    let mut page = Vec::new();
    // Not by clap: without a date it would take the next word for one.
    writeln!(
        page,
        ".TH {name} 1 {DATE} \"windows-storage-operator {version}\" \"User Commands\""
    )?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    section("DESCRIPTION", &description, &mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    if !statuses.is_empty() {
        section("EXIT STATUS", &statuses, &mut page)?;
    }
    if let Some(examples) = examples {
        write_examples(&examples, &mut page)?;
    }
    Ok(tidy(&page))
}

fn name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

fn section(title: &str, paragraphs: &[&str], page: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (number, paragraph) in paragraphs.iter().enumerate() {
        if number > 0 {
            roff.control("PP", []);
        }
        if paragraph.starts_with(' ') {
            as_it_is(paragraph, &mut roff);
        } else {
            roff.text([roman(*paragraph)]);
        }
    }
    roff.to_writer(page)
}

fn write_examples(text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let (head, examples) = text.split_once('\n').unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    let about = head
        .strip_prefix(EXAMPLES)
        .unwrap_or(head)
        .trim_start_matches([',', ' ', ':']);
    if !about.is_empty() {
        let mut letters = about.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        roff.text([roman(first.chain(letters).collect::<String>())]);
        roff.control("PP", []);
    }
    as_it_is(examples, &mut roff);
    roff.to_writer(page)
}

/// Lines that are not to be filled.
fn as_it_is(text: &str, roff: &mut Roff) {
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

/// Without what each section leaves behind: a preamble, blanks at the ends of lines, and empty lines between breaks.
fn tidy(page: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(page);
    // That of the first section is enough for all.
    let is_preamble = |line: &str| line.starts_with(".ie \\n(.g") || line.starts_with(".el .ds");
    let preamble: Vec<&str> = text
        .lines()
        .filter(|line| is_preamble(line))
        .take(2)
        .collect();
    let mut tidy = preamble.join("\n") + "\n";
    for line in text.lines().map(str::trim_end) {
        let is_second_break = line == ".br" && tidy.ends_with("\n.br\n");
        if !(line.is_empty() || is_preamble(line) || is_second_break) {
            tidy.push_str(line);
            tidy.push('\n');
        }
    }
    tidy.into_bytes()
}
