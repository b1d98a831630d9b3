//! Decides which files of a chart's folder `.helmignore` excludes. Counterpart: Helm's `pkg/ignore`.

use golibs::path_match::Pattern;

use crate::chart::File;

/// An invalid pattern in `.helmignore`. The texts are Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The pattern contains `**`.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// The pattern is malformed.
    #[error("syntax error in pattern")]
    Syntax,
}

/// Removes the files that the chart's own `.helmignore` excludes, for charts whose files are in memory.
///
/// # Errors
/// `.helmignore` contains an invalid pattern.
pub fn without_ignored(files: Vec<File>) -> Result<Vec<File>, RuleError> {
    let text = files
        .iter()
        .find(|file| file.name == ".helmignore")
        .map(|file| String::from_utf8_lossy(&file.data).into_owned());
    let rules = Rules::parse(&text.unwrap_or_default())?;
    let folders = |name: &str| name.match_indices('/').map(|(end, _)| end).collect::<Vec<_>>();
    let is_ignored = |name: &str| {
        rules.ignores(name, Entry::File)
            || folders(name).into_iter().any(|end| rules.ignores(&name[..end], Entry::Folder))
    };
    Ok(files.into_iter().filter(|file| !is_ignored(&file.name)).collect())
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File,
    Folder,
}

/// The rules, in order of precedence.
#[derive(Default)]
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    negated: bool,
    directories_only: bool,
    base_name_only: bool,
    /// `None` if the rest of the line is malformed, which then matches nothing.
    pattern: Option<Pattern>,
}

impl Rules {
    /// Parses the lines. For every chart, hidden files below `templates/` are ignored.
    pub(super) fn parse(text: &str) -> Result<Rules, RuleError> {
        let mut rules = Rules::default();
        for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines().chain(["templates/.?*"]) {
            rules.add(line.trim())?;
        }
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), RuleError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(RuleError::DoubleStar);
        }
        if Pattern::new(line).is_none() {
            return Err(RuleError::Syntax);
        }
        let (negated, rest) = strip(line, |l| l.strip_prefix('!'));
        let (directories_only, rest) = strip(rest, |l| l.strip_suffix('/'));
        let (rooted, pattern) = strip(rest, |l| l.strip_prefix('/'));
        let base_name_only = !rooted && !pattern.contains('/');
        self.0.push(Rule { negated, directories_only, base_name_only, pattern: Pattern::new(pattern) });
        Ok(())
    }

    /// Returns whether the path, relative to the chart's folder, is ignored.
    pub(super) fn ignores(&self, path: &str, entry: Entry) -> bool {
        let is_directory = entry == Entry::Folder;
        for rule in &self.0 {
            let matches = rule.matches(path);
            if rule.negated {
                if (rule.directories_only && !is_directory) || !matches {
                    return true;
                }
            } else if matches && (is_directory || !rule.directories_only) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn matches(&self, path: &str) -> bool {
        let name = if self.base_name_only { path.rsplit('/').next().unwrap_or(path) } else { path };
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches(name))
    }
}

fn strip<'a>(text: &'a str, by: impl Fn(&'a str) -> Option<&'a str>) -> (bool, &'a str) {
    by(text).map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_ignore_as_helm_does() {
        let rules = Rules::parse("\u{feff}# comment\n*.swp\n/root.txt\ndocs/\na/b*\n").unwrap();
        for (path, entry, wanted) in [
            ("x/y.swp", Entry::File, true),
            ("root.txt", Entry::File, true),
            ("x/root.txt", Entry::File, false),
            ("docs", Entry::Folder, true),
            ("docs", Entry::File, false),
            ("a/bc", Entry::File, true),
            ("x/a/bc", Entry::File, false),
            ("templates/.hidden", Entry::File, true),
        ] {
            assert_eq!(rules.ignores(path, entry), wanted, "{path}");
        }
    }

    #[test]
    fn ignored_files_and_folders_are_dropped_from_files_in_memory() {
        let names = [".helmignore", "docs/a.md", "templates/a.yaml", "templates/a.swp", "x/docs"];
        let files = names.map(|name| File::from((name, if name == ".helmignore" { "docs/\n*.swp\n" } else { "" })));
        let left: Vec<_> = without_ignored(files.into()).unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(left, [".helmignore", "templates/a.yaml", "x/docs"]);
    }

    #[test]
    fn a_negated_rule_ignores_everything_else() {
        let rules = Rules::parse("!keep.txt").unwrap();
        assert!(!rules.ignores("keep.txt", Entry::File));
        assert!(rules.ignores("other.txt", Entry::File));
    }

    #[test]
    fn double_stars_are_rejected() {
        assert_eq!(Rules::parse("a/**").err().unwrap().to_string(), "double-star (**) syntax is not supported");
    }
}
