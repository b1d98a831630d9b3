//! The playground in a browser: what is typed and dropped is rendered, a link brings it back, and the worker prints what
//! Helm printed for every own vector and chart. `make playground` builds the page and names its folder in `PLAYGROUND`;
//! without it, nothing is tested.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::publishable;

/// Serves the files of a folder; returns its address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || answer(stream, &folder));
        }
    });
    address
}

fn answer(mut stream: TcpStream, folder: &Path) {
    let mut asked = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    reader.read_line(&mut asked).unwrap();
    // A browser waits for the answer before it asks again: what is left of the request is read away.
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let path = asked.split_whitespace().nth(1).unwrap_or("/").split('?').next().unwrap_or_default();
    let name = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    let (status, body) = fs::read(folder.join(name)).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// Types into a field, as a person does.
fn fill(browser: &mut Browser, id: &str, text: &str) {
    let text = Value::from(text);
    browser.run(&format!(
        "(() => {{ const field = document.getElementById('{id}'); field.value = {text}; field.dispatchEvent(new Event('input')) }})()"
    ));
}

/// Opens the page; returns the browser and the page's address. Without a page or a browser, says so and returns `None`.
fn open_or_skip() -> Option<(Browser, String)> {
    let Some(folder) = std::env::var_os("PLAYGROUND").map(PathBuf::from) else {
        eprintln!("skipped: no page is built; `make playground` builds it");
        return None;
    };
    let mut browser = Browser::start_or_skip("")?;
    let address = serve(folder);
    browser.open(&address);
    Some((browser, address))
}

/// Returns an expression that is true once the page's result contains this text.
fn shown(text: &str) -> String {
    format!("document.querySelector('[aria-labelledby=shown]').textContent.includes({})", Value::from(text))
}

#[test]
fn a_chart_is_rendered_as_one_types_and_a_link_brings_it_back() {
    let Some((mut browser, address)) = open_or_skip() else { return };
    browser.wait("the example", &shown("replicas: 1"));
    fill(&mut browser, "values", "replicas: 7\nreplica: 2\n");
    browser.wait("the values", &shown("replicas: 7"));
    browser.wait("a typing error", &shown("no template reads replica; did you mean replicas?"));
    browser.wait("the origin", &shown("1 (web/values.yaml:2)"));

    fill(&mut browser, "content", "kind: {{ .Values.absent.kind }}\n");
    browser.wait("the template's error", &shown("web/templates/deployment.yaml:1"));
    fill(&mut browser, "content", "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}");
    browser.wait("too deep a chart", &shown("too deep for a browser"));
    fill(&mut browser, "content", "kind: Fixed\nmetadata: {name: {{ .Values.replicas | quote }}}\n");
    browser.wait("the corrected template", &shown("Fixed 7"));

    browser.run("document.getElementById('share').click()");
    browser.wait("the link", "location.hash.length > 20");
    let link = browser.run("location.hash").as_str().unwrap().to_owned();
    browser.open(&format!("{address}?again{link}"));
    browser.wait("the shared chart", &shown("Fixed 7"));
    browser.wait("the shared values", "document.getElementById('values').value.includes('replica: 2')");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

/// Drops a file with this content, in Base64, on the page.
const DROP: &str = "((content) => {
  const dropped = new DataTransfer()
  dropped.items.add(new File([Uint8Array.from(atob(content), (char) => char.charCodeAt(0))], 'shop.tgz'))
  document.getElementById('drop').dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, bubbles: true }))
})";

/// Packs a chart of ours without what its `.helmignore` names, as `helm package` does.
fn archive() -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args(["-czf", "-", "--exclude=*.bak", "--exclude=ignored", "-C"]).arg(own("charts")).arg("shop");
    let output = tar.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn an_archive_that_is_dropped_is_rendered_with_its_subcharts() {
    let Some((mut browser, _)) = open_or_skip() else { return };
    browser.wait("the example", &shown("replicas: 1"));
    let content = Value::from(base64::engine::general_purpose::STANDARD.encode(archive()));
    browser.run(&format!("{DROP}({content})"));
    browser.wait("the dropped chart", &shown("Deployment my-release-shop"));
    browser.wait("its subchart", &shown("Service my-release-wishlist"));
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

/// Starts a worker as the page does, which answers one message at a time.
const WORKER: &str = "(() => {
  const worker = new Worker('worker.js', { type: 'module' })
  window.ask = (message) => new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data)
    worker.onerror = (event) => reject(new Error(event.message))
    worker.postMessage(message)
  })
  window.template = async (folder, question) => {
    const all = folder.map(([name, text]) => [name, new TextEncoder().encode(text)])
    const { files } = await ask({ folder: all })
    return ask({ files, question })
  }
})()";

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/conformance/own").join(path)
}

/// Returns the lines of a file, and each as JSON.
fn records(file: &str) -> Vec<(String, Value)> {
    let text = fs::read_to_string(own(file)).unwrap();
    text.lines().map(|line| (line.to_owned(), serde_json::from_str(line).unwrap())).collect()
}

#[test]
fn every_own_vector_prints_in_a_browser_what_helm_printed() {
    let Some((mut browser, _)) = open_or_skip() else { return };
    browser.run(WORKER);
    let vectors = records("vectors.jsonl");
    let differs = |(line, vector): &(String, Value)| {
        let reply = browser.run(&format!("ask({})", json!({"record": line})));
        let (printed, error) = (&reply["printed"], &reply["answer"]["error"]["text"]);
        let is_same = *printed == vector["out"] && *error == vector["error"];
        (!is_same).then(|| format!("{}: {reply}", vector["id"]))
    };
    let different: Vec<String> = vectors.iter().filter_map(differs).collect();
    let passed = vectors.len() - different.len();
    eprintln!("{passed} of {} own vectors print in the browser what Helm printed", vectors.len());
    assert!(different.is_empty() && passed > 300, "{passed} passed\n{}", different.join("\n"));
}

/// Returns the names and contents of a chart's files.
fn chart(root: &Path) -> Vec<(String, String)> {
    let mut names = BTreeSet::new();
    publishable::files(root, root, &mut names);
    names.into_iter().map(|name| (name.clone(), fs::read_to_string(root.join(name)).unwrap())).collect()
}

/// Returns what the page asks for a case. The page has fields for values and for the version of Kubernetes, and for no
/// other flag of the cases.
fn question(case: &Value) -> Option<Value> {
    let arguments: Vec<&str> = case["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let kube_version = match arguments[..] {
        [] => "",
        ["--kube-version", version] => version,
        _ => return None,
    };
    let values = case["values"].as_str().map(|file| fs::read_to_string(own(file)).unwrap()).unwrap_or_default();
    Some(json!({"release": "rel", "namespace": "ns", "values": values, "kubeVersion": kube_version}))
}

#[test]
fn own_charts_print_in_a_browser_what_helm_template_printed() {
    let Some((mut browser, _)) = open_or_skip() else { return };
    browser.run(WORKER);
    let mut count = 0;
    for (_, case) in records("cases.jsonl") {
        let Some(question) = question(&case) else { continue };
        let files = json!(chart(&own(case["dir"].as_str().unwrap())));
        let answer = browser.run(&format!("template({files}, {question})"))["answer"].take();
        let printed = match answer["error"]["text"].as_str() {
            // Some messages of Helm end with a line break, after which it prints no second one.
            Some(error) => format!("Error: {}\n", error.trim_end()),
            None => answer["text"].as_str().unwrap().to_owned(),
        };
        let expected = case["expected"].as_str().unwrap();
        assert_eq!(printed, fs::read_to_string(own(expected)).unwrap(), "{expected}");
        count += 1;
    }
    eprintln!("{count} own charts print in the browser what helm template printed");
    assert!(count > 5, "{count} charts");
}
