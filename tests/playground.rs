//! The playground in a browser: what is typed and dropped is rendered, and a link brings it back. `make playground`
//! builds the page and names its folder in `PLAYGROUND`; without it, nothing is tested.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use serde_json::Value;

use crate::browser::Browser;

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

#[test]
fn a_chart_is_rendered_as_one_types_and_a_link_brings_it_back() {
    let Some(folder) = std::env::var_os("PLAYGROUND").map(PathBuf::from) else {
        eprintln!("skipped: no page is built; `make playground` builds it");
        return;
    };
    let Some(mut browser) = Browser::start_or_skip("") else { return };
    let address = serve(folder);
    browser.open(&address);
    let shown = |text: &str| {
        format!("document.querySelector('[aria-labelledby=shown]').textContent.includes({})", Value::from(text))
    };
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
