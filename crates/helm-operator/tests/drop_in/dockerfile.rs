//! Builds an image in a folder, from the lines of its last stage.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An image: its files below a folder, and how to run it.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    root: PathBuf,
    env: BTreeMap<String, String>,
    pub(crate) workdir: String,
    pub(crate) user: String,
    pub(crate) entrypoint: Vec<String>,
}

impl Image {
    /// Creates an empty image below this folder.
    pub(crate) fn scratch(root: &Path) -> Image {
        let (env, workdir) = (BTreeMap::new(), "/".to_owned());
        Image { root: root.to_owned(), env, workdir, user: String::new(), entrypoint: Vec::new() }
    }

    /// Adds the stage with this name; without a name, the last one. `source` returns the path of a file in a COPY line,
    /// for the stage that the line names and its path there.
    pub(crate) fn add(
        &mut self,
        dockerfile: &str,
        stage: Option<&str>,
        source: impl Fn(Option<&str>, &str) -> PathBuf,
    ) {
        for line in stage_lines(dockerfile, stage) {
            let (instruction, rest) = line.split_once(' ').unwrap();
            let rest = self.expand(rest);
            match instruction {
                "ENV" => self.env.extend(rest.split(' ').map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap();
                    (name.to_owned(), value.to_owned())
                })),
                "WORKDIR" => {
                    fs::create_dir_all(self.path(&rest)).unwrap();
                    self.workdir = rest;
                }
                "USER" => self.user = rest,
                "ENTRYPOINT" => self.entrypoint = serde_json::from_str(&rest).unwrap(),
                "COPY" => self.copy(&rest, &source),
                other => panic!("{other} needs a container: {line}"),
            }
        }
    }

    fn copy(&self, arguments: &str, source: impl Fn(Option<&str>, &str) -> PathBuf) {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let (stage, words) = match words[0].strip_prefix("--from=") {
            Some(stage) => (Some(stage), &words[1..]),
            None => (None, &words[..]),
        };
        let [from, to] = words else { panic!("COPY {arguments}") };
        let to = self.path(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let copied = Command::new("cp").arg("-RT").args([source(stage, from), to]).status().unwrap();
        assert!(copied.success(), "COPY {arguments}");
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.strip_prefix('/').unwrap())
    }

    fn expand(&self, text: &str) -> String {
        self.env.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    /// Returns the entrypoint as a command: its files are those of the folder, and it gets only the image's
    /// environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.path(&self.entrypoint[0]));
        command.args(&self.entrypoint[1..]).current_dir(self.path(&self.workdir)).env_clear().envs(&self.env);
        command
    }
}

/// Returns the instructions of a stage without its FROM line and comments.
fn stage_lines(dockerfile: &str, name: Option<&str>) -> Vec<String> {
    let joined = dockerfile.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut stages: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for line in lines {
        match (line.strip_prefix("FROM "), stages.last_mut()) {
            (Some(from), _) => stages.push((from.split_once(" AS ").map(|(_, name)| name.to_owned()), Vec::new())),
            (None, Some((_, stage))) => stage.push(line.to_owned()),
            // An argument for FROM lines.
            (None, None) => assert!(line.starts_with("ARG "), "{line}"),
        }
    }
    match name {
        None => stages.pop().unwrap().1,
        Some(name) => stages.into_iter().find(|(stage, _)| stage.as_deref() == Some(name)).unwrap().1,
    }
}
