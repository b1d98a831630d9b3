//! Rebases a Dockerfile of upstream's operator on this operator: changes what it can, and names the rest with its line.

use std::ops::Range;

use super::images::is_upstream;
use super::parse::{Dockerfile, Instruction};

/// The base image that `make docker-build-base` builds.
const BASE: &str = "helm-operator:latest";

/// The path of the program in the base image.
const PROGRAM: &str = "/usr/local/bin/helm-operator";

/// The comment that explains the base image. A Dockerfile with it has been moved already.
const ABOUT: &str =
    "# The operator's base image; `make docker-build-base` in helm-operator's sources builds helm-operator:latest.\n";

/// The argument that names the base image.
const ARGUMENT: &str = "HELM_OPERATOR_IMAGE";

/// A Dockerfile after its move.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebased {
    /// The new text; the old one if nothing can be changed.
    pub(crate) text: String,
    /// The changes and the remaining tasks, each with its line.
    pub(crate) notes: Vec<(usize, String)>,
}

/// Moves a Dockerfile. Returns `None` if it does not build an operator with charts, or has been moved already.
pub(crate) fn rebase(text: &str) -> Option<Rebased> {
    let parsed = Dockerfile::parse(text);
    if text.contains(ABOUT.trim_end()) || !is_operators(&parsed) {
        return None;
    }
    let mut change = Change { text, parsed: &parsed, edits: Vec::new(), notes: Vec::new(), on_base: Vec::new() };
    change.bases();
    change.programs();
    change.downloads();
    if change.notes.is_empty() {
        change.unknown();
    }
    change.shells();
    Some(change.finish())
}

/// Returns whether the image holds watches.yaml or upstream's program.
fn is_operators(parsed: &Dockerfile) -> bool {
    let is_watches = |one: &Instruction| one.args.contains("watches.yaml") && one.keyword != "RUN";
    let is_based = |from: &Instruction| is_upstream(&parsed.image(from));
    parsed.instructions.iter().any(is_watches) || parsed.all("FROM").any(is_based)
}

struct Change<'a> {
    text: &'a str,
    parsed: &'a Dockerfile,
    /// Ranges of the text and their replacements.
    edits: Vec<(Range<usize>, String)>,
    notes: Vec<(usize, String)>,
    /// The stages based on our image.
    on_base: Vec<usize>,
}

impl<'a> Change<'a> {
    /// Replaces the base images of stages.
    fn bases(&mut self) {
        let mut needs_argument = false;
        for from in self.parsed.all("FROM") {
            let image = self.parsed.image(from);
            let Some(raw) = from.words().next() else { continue };
            if is_upstream(&image) {
                self.on_base.push(from.stage);
                self.notes.push((from.line, format!("the image is built on {BASE} instead of {image}")));
                match self.argument(raw) {
                    Some(argument) => self.set_argument(argument),
                    None => {
                        needs_argument = true;
                        self.replace(from, raw, &format!("${{{ARGUMENT}}}"));
                    }
                }
            } else if let Some(stage) = self.stage(raw).filter(|stage| self.on_base.contains(stage)) {
                debug_assert!(stage < from.stage);
                self.on_base.push(from.stage);
            }
        }
        let first = self.parsed.all("FROM").next().map(|from| from.range.start);
        if let Some(start) = first.filter(|_| needs_argument) {
            self.edits.push((start..start, format!("{ABOUT}ARG {ARGUMENT}={BASE}\n")));
        }
    }

    /// Returns the `ARG` before the first stage that holds the whole image.
    fn argument(&self, raw: &str) -> Option<&'a Instruction> {
        let name = raw.strip_prefix('$')?;
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        let name = name.split_once(":-").map_or(name, |(name, _)| name);
        let sets =
            |one: &&Instruction| one.args.split('=').next() == Some(name) && !one.args.contains(char::is_whitespace);
        let parsed = self.parsed;
        parsed.all("ARG").filter(|one| one.stage == 0).find(sets)
    }

    fn set_argument(&mut self, argument: &Instruction) {
        let name = argument.args.split('=').next().unwrap_or_default();
        self.edits.push((argument.range.clone(), format!("{ABOUT}ARG {name}={BASE}\n")));
    }

    fn stage(&self, name: &str) -> Option<usize> {
        let named = |from: &&Instruction| {
            let words: Vec<&str> = from.words().collect();
            words.len() >= 3 && words[1].eq_ignore_ascii_case("as") && words[2].eq_ignore_ascii_case(name)
        };
        let by_number = || name.parse().ok().map(|number: usize| number + 1);
        self.parsed.all("FROM").find(named).map(|from| from.stage).or_else(by_number)
    }

    /// Replaces copies of upstream's program from other images, and from stages that build it.
    fn programs(&mut self) {
        for copy in self.parsed.all("COPY") {
            let (Some(from), Some(source)) = (copy.flag("--from"), copy.words().next()) else { continue };
            let is_program = source.rsplit('/').next() == Some("helm-operator");
            let stage = self.stage(from);
            if is_upstream(from) {
                self.notes.push((copy.line, format!("the program comes from {BASE} instead of {from}")));
                self.replace_with_about(copy, &[(from, BASE)]);
            } else if is_program && stage.is_some_and(|stage| !self.on_base.contains(&stage)) {
                self.notes.push((
                    copy.line,
                    format!("the program comes from {BASE}; the stage {from:?}, which built upstream's, can go"),
                ));
                self.replace_with_about(copy, &[(from, BASE), (source, PROGRAM)]);
            }
        }
    }

    /// Names the instructions that download upstream's program.
    fn downloads(&mut self) {
        for one in &self.parsed.instructions {
            let fetches = ["curl", "wget", "https://"].iter().any(|word| one.args.contains(word));
            if ["RUN", "ADD"].contains(&one.keyword.as_str()) && fetches && one.args.contains("helm-operator") {
                let todo = format!("COPY --from={BASE} {PROGRAM} {PROGRAM}");
                self.notes.push((one.line, format!("this downloads upstream's helm-operator; write instead: {todo}")));
            }
        }
    }

    /// Adds a note for an image that runs the operator in an unknown way.
    fn unknown(&mut self) {
        let last = |keyword: &str| self.parsed.instructions.iter().rfind(|one| one.keyword == keyword);
        let Some(place) = last("ENTRYPOINT").or_else(|| last("CMD")).or_else(|| last("FROM")) else { return };
        let todo = format!("FROM {BASE}, or COPY --from={BASE} {PROGRAM} and that as ENTRYPOINT");
        let what = "this image does not run helm-operator in a way that is known here";
        self.notes.push((place.line, format!("{what}; let it run this operator: {todo}")));
    }

    /// Adds a note for commands: they need a shell, which the base image contains only if it is built on an image with
    /// one.
    fn shells(&mut self) {
        let needs = |one: &&Instruction| one.keyword == "RUN" && self.on_base.contains(&one.stage);
        if let Some(first) = self.parsed.instructions.iter().find(needs) {
            let todo = "build the base image with a shell, 'make docker-build-base BASE_IMAGE=…'";
            self.notes.push((first.line, format!("RUN needs a shell: {todo}")));
        }
    }

    /// Replaces the first occurrence in an instruction.
    fn replace(&mut self, one: &Instruction, old: &str, new: &str) {
        if let Some(at) = self.text[one.range.clone()].find(old) {
            let start = one.range.start + at;
            self.edits.push((start..start + old.len(), new.to_owned()));
        }
    }

    fn replace_with_about(&mut self, one: &Instruction, words: &[(&str, &str)]) {
        let start = one.range.start;
        self.edits.push((start..start, ABOUT.to_owned()));
        words.iter().for_each(|(old, new)| self.replace(one, old, new));
    }

    fn finish(mut self) -> Rebased {
        let mut text = self.text.to_owned();
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        for (range, new) in self.edits.iter().rev() {
            text.replace_range(range.clone(), new);
        }
        self.notes.sort_by_key(|(line, _)| *line);
        Rebased { text, notes: self.notes }
    }
}
