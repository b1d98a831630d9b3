//! The events that watches of both servers deliver about a seed's requests.

use futures::StreamExt as _;
use helm_release::kube::{Api, Call, MemoryApi};
use serde_json::Value;

use super::kinds::{KINDS, LAST};
use super::side::{Side, difference};

/// The label selectors of watches. All select the last object.
const SELECTORS: [&str; 5] = ["", "l%3D1", "l", "l!%3D2", "l%20in%20(1,2),!m"];

/// The versions at which the watches of both servers begin.
pub(super) struct Since {
    memory: String,
    real: String,
}

impl Since {
    pub(super) async fn now(memory: &dyn Api, real: &dyn Api) -> Since {
        Since { memory: version(memory).await, real: version(real).await }
    }
}

async fn version(api: &dyn Api) -> String {
    let list: Value = api.send(Call::get(KINDS[0].collection)).await.unwrap().parse().unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Returns the label selectors and `Accept` headers of watches.
fn watches() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    SELECTORS.into_iter().map(|selector| (selector, None)).chain([(SELECTORS[1], Call::metadata("").accept)])
}

/// Returns the differences between the events of both servers, which end with the creation of the last object of each
/// kind.
pub(super) async fn differences(
    since: &Since,
    (memory_api, memory): (&MemoryApi, &mut Side<'_>),
    (real_api, real): (&dyn Api, &mut Side<'_>),
) -> Vec<String> {
    let mut found = Vec::new();
    for kind in &KINDS {
        for (selector, accept) in watches() {
            let watch = format!("{}?watch=true&timeoutSeconds=10&labelSelector={selector}", kind.collection);
            let call = |version: &str| Call { accept, ..Call::get(format!("{watch}&resourceVersion={version}")) };
            let seen = memory.events(in_memory(memory_api, &call(&since.memory)));
            let wanted = real.events(delivered(real_api, call(&since.real)).await);
            found.extend(compared(&watch, &seen, &wanted));
        }
    }
    found
}

/// Returns the differences between the objects of events only if the events themselves agree.
fn compared(watch: &str, seen: &[Value], wanted: &[Value]) -> Vec<String> {
    let outlines = difference(watch, &outline(seen), &outline(wanted));
    if !outlines.is_empty() {
        return outlines;
    }
    let each = seen.iter().zip(wanted).enumerate();
    each.flat_map(|(at, (seen, wanted))| difference(&format!("{watch} {at}"), seen, wanted)).collect()
}

fn outline(events: &[Value]) -> Value {
    let line = |event: &Value| format!("{} {}", event["type"], event["object"]["metadata"]["name"]);
    events.iter().map(line).collect::<Vec<_>>().join(", ").into()
}

fn in_memory(api: &MemoryApi, call: &Call) -> Vec<Value> {
    let mut watch = api.watch(call).unwrap();
    api.events(&mut watch).unwrap()
}

/// Reads the events of a real server up to the last object, or until the server ends the watch.
async fn delivered(api: &dyn Api, call: Call) -> Vec<Value> {
    let mut pieces = api.stream(call).await.unwrap();
    let (mut text, mut events): (Vec<u8>, Vec<Value>) = (Vec::new(), Vec::new());
    while !events.last().is_some_and(is_last) {
        let Some(piece) = pieces.next().await else { break };
        text.extend(piece.unwrap());
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            events.push(serde_json::from_slice(&line).unwrap());
        }
    }
    events
}

fn is_last(event: &Value) -> bool {
    event["object"]["metadata"]["name"] == LAST
}
