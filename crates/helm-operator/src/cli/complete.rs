//! Completes kinds and names of live resources in a shell: kinds from the watches file, names from the cluster.
//!
//! A person waits for the answer, and the shell shows whatever is printed. So the answer is short, arrives soon or not at
//! all, and failures are silent.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Command;
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};
use helm_release::kube::{Api, Call, Mapper, Resource};
use outside::Headed;
use serde::Deserialize;
use tokio::runtime::Builder;

use super::flags::WATCHES_FILE;
use super::kubeconfig::ClusterFlags;
use crate::watches::{self, Watch};

/// The variable by which the shell's script asks for candidates, naming the shell.
const VARIABLE: &str = "HELM_OPERATOR_COMPLETE";

/// How long a person waits.
const LIMIT: Duration = Duration::from_secs(2);

/// How many names of one kind are offered.
const MAX_NAMES: usize = 500;

/// The arguments that name resources, by command.
const ARGUMENTS: [(&str, &str, Wanted); 8] = [
    ("status", "what", Wanted::Resource),
    ("history", "what", Wanted::Resource),
    ("values", "names", Wanted::Resource),
    ("diff", "kind", Wanted::Kind),
    ("diff", "names", Wanted::Name),
    ("get", "kind", Wanted::Kind),
    ("rollback", "kind", Wanted::Kind),
    ("rollback", "name", Wanted::Name),
];

/// What an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Kind,
    /// The name of a resource, whose kind the word before names.
    Name,
    /// `KIND NAME`, `KIND/NAME`, or `NAME`.
    Resource,
}

/// Prints candidates for the words that a shell passes, and returns true, if that is what the process was started for.
pub(super) fn answer(name: &str) -> bool {
    let asked = CompleteEnv::with_factory(|| super::command(name)).var(VARIABLE);
    let here = std::env::current_dir().ok();
    // A shell that is unknown gets no candidates.
    std::env::var_os(VARIABLE).is_some() && asked.try_complete(std::env::args_os(), here.as_deref()).unwrap_or(true)
}

/// Returns the script with which a shell asks this program.
pub(super) fn script(program: &str, shell: &str) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(shell) {
        shell.write_registration(VARIABLE, program, program, program, &mut script)?;
    }
    Ok(script)
}

/// Lets the commands about resources complete them.
pub(super) fn completing(command: Command) -> Command {
    ARGUMENTS.into_iter().fold(command, |command, (subcommand, argument, wanted)| {
        let completer = ArgValueCompleter::new(Resources(wanted));
        command.mut_subcommand(subcommand, |sub| sub.mut_arg(argument, |known| known.add(completer)))
    })
}

/// Completes an argument.
struct Resources(Wanted);

impl ValueCompleter for Resources {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        self.complete_at(0, current)
    }

    fn complete_at(&self, index: usize, current: &OsStr) -> Vec<CompletionCandidate> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        let typed = Typed::read(&words);
        let wanted = match (self.0, index) {
            (Wanted::Resource, 1..) => Wanted::Name,
            (wanted, _) => wanted,
        };
        let found = candidates(&typed, wanted, current.to_str().unwrap_or_default());
        found.into_iter().map(CompletionCandidate::new).collect()
    }
}

/// The words of the command line so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Typed {
    /// The first word that is not a flag: the kind, if a name follows.
    kind: String,
    namespace: Option<String>,
    context: Option<String>,
    kubeconfig: Option<PathBuf>,
    watches_file: Option<PathBuf>,
}

impl Typed {
    /// Reads the words that the shell's script passes after `--`: the program, the command, and the rest.
    fn read(words: &[&str]) -> Typed {
        let rest = words.iter().position(|word| *word == "--").map_or(&[][..], |at| &words[at + 1..]);
        let (mut typed, mut rest) = (Typed::default(), rest.iter().skip(2));
        while let Some(word) = rest.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) if word.starts_with('-') => (flag, Some(value)),
                _ => (*word, None),
            };
            let mut value = || value.or_else(|| rest.next().copied()).map(str::to_owned);
            match flag {
                "-n" | "--namespace" => typed.namespace = value(),
                "--context" | "--kube-context" => typed.context = value(),
                "--kubeconfig" => typed.kubeconfig = value().map(PathBuf::from),
                "--watches-file" => typed.watches_file = value().map(PathBuf::from),
                "-o" | "--output" | "--max" | "--to" | "--timeout" => drop(value()),
                _ if flag.starts_with('-') => {}
                _ if typed.kind.is_empty() => typed.kind = (*word).to_owned(),
                _ => {}
            }
        }
        typed
    }
}

/// Returns what a word may become; nothing if that cannot be found out in time.
fn candidates(typed: &Typed, wanted: Wanted, current: &str) -> Vec<String> {
    let watches = watches::load(typed.watches_file.as_deref().unwrap_or(Path::new(WATCHES_FILE))).unwrap_or_default();
    let kinds = kinds(&watches);
    let found = match (wanted, current.split_once('/')) {
        (Wanted::Kind, _) => kinds,
        (Wanted::Name, _) => names(typed, &[&typed.kind]),
        (Wanted::Resource, Some((kind, _))) => {
            names(typed, &[kind]).into_iter().map(|name| format!("{kind}/{name}")).collect()
        }
        (Wanted::Resource, None) => {
            let words: Vec<&str> = kinds.iter().map(String::as_str).collect();
            let names = names(typed, &words);
            kinds.into_iter().chain(names).collect()
        }
    };
    found.into_iter().filter(|word| word.starts_with(current)).collect()
}

/// Returns the words for the kinds of a watches file.
fn kinds(watches: &[Watch]) -> Vec<String> {
    let mut kinds: Vec<String> = watches.iter().map(|watch| watch.kind.to_lowercase()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn names(typed: &Typed, kinds: &[&str]) -> Vec<String> {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let asked = async {
        let flags = ClusterFlags { kubeconfig: typed.kubeconfig.clone(), context: typed.context.clone() };
        let config = flags.configuration().await.ok()?;
        let namespace = typed.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let api: Arc<dyn Api> = Arc::new(kube::Client::try_from(config).ok()?);
        Some(names_in(&api, &namespace, kinds).await)
    };
    let found = runtime.block_on(async { tokio::time::timeout(LIMIT, asked).await.ok().flatten() });
    // A connection that hangs is not waited for.
    runtime.shutdown_background();
    found.unwrap_or_default()
}

/// Lists the names of resources of these kinds in a namespace.
async fn names_in(api: &Arc<dyn Api>, namespace: &str, kinds: &[&str]) -> Vec<String> {
    let (mapper, mut all) = (Mapper::new(api.clone()), Vec::new());
    for word in kinds.iter().filter(|word| !word.is_empty()) {
        // Kinds of the same name in different groups are all listed.
        for kind in mapper.named(word).await.unwrap_or_default() {
            all.extend(listed(&**api, &kind, namespace).await.unwrap_or_default());
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

async fn listed(api: &dyn Api, kind: &Resource, namespace: &str) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        items: Option<Vec<Headed>>,
    }
    let path = kind.collection(if kind.namespaced { namespace } else { "" }).ok()?;
    let list: List = api.send(Call::metadata_list(format!("{path}?limit={MAX_NAMES}"))).await.ok()?.parse().ok()?;
    Some(list.items.into_iter().flatten().filter_map(|item| item.metadata.name).collect())
}

#[cfg(test)]
mod tests {
    use helm_release::kube::{Error, MemoryApi};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_words_before_say_which_kind_namespace_and_cluster_are_meant() {
        let read = |line: &str| Typed::read(&line.split(' ').collect::<Vec<_>>());
        let whole = read("op -- op status -n shop --context=c --kubeconfig k --watches-file=w -o json memcached we");
        let expected = Typed {
            kind: "memcached".into(),
            namespace: Some("shop".into()),
            context: Some("c".into()),
            kubeconfig: Some("k".into()),
            watches_file: Some("w".into()),
        };
        assert_eq!(whole, expected);
        assert_eq!(read("op -- op status"), Typed::default());
        assert_eq!(read("op run"), Typed::default());
        assert_eq!(read("op -- op status --watch -n"), Typed::default(), "the value is being typed");
    }

    #[test]
    fn every_argument_that_is_completed_exists() {
        let command = super::super::command("op");
        for (subcommand, argument, _) in ARGUMENTS {
            let sub = command.find_subcommand(subcommand).unwrap();
            assert!(sub.get_arguments().any(|known| known.get_id() == argument), "{subcommand} {argument}");
        }
    }

    #[tokio::test]
    async fn names_are_those_of_the_namespace_and_a_refusal_is_silent() {
        let server = Arc::new(MemoryApi::new());
        server.serve("shop.example.com/v1", "Shop", "shops");
        for (namespace, name) in [("ns", "web"), ("ns", "api"), ("other", "far")] {
            let object = json!({"apiVersion": "shop.example.com/v1", "kind": "Shop", "metadata": {"name": name, "namespace": namespace}});
            server.put(&format!("/apis/shop.example.com/v1/namespaces/{namespace}/shops/{name}"), object, "user");
        }
        let api: Arc<dyn Api> = server.clone();
        for word in ["shop", "shops", "shops.shop.example.com"] {
            assert_eq!(names_in(&api, "ns", &[word, ""]).await, ["api", "web"], "{word}");
        }
        assert!(names_in(&api, "ns", &["nothing"]).await.is_empty());
        server.refuse(|call| call.path.contains("/shops").then(|| Error::from_status(403, "Forbidden", "no")));
        assert!(names_in(&api, "ns", &["shop"]).await.is_empty());
    }

    #[test]
    fn without_a_watches_file_and_a_cluster_nothing_is_offered() {
        let typed =
            Typed { watches_file: Some("/nowhere".into()), kubeconfig: Some("/nowhere".into()), ..Typed::default() };
        for wanted in [Wanted::Kind, Wanted::Name, Wanted::Resource] {
            assert!(candidates(&typed, wanted, "").is_empty(), "{wanted:?}");
        }
    }

    #[test]
    fn each_shell_gets_a_script_that_asks_this_program() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = String::from_utf8(script("my-operator", shell).unwrap()).unwrap();
            assert!(script.contains(VARIABLE) && script.contains("my-operator"), "{shell}: {script}");
        }
    }
}
