//! Drives a headless Chromium by its DevTools protocol over two pipes: opens pages, types, runs scripts in them, and takes
//! pictures. `CHROMIUM` names the program; default: `chromium`, as Debian installs it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use test_cluster::eventually;

/// How long the browser may take to answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Passes the pipes on as the file descriptors that the protocol uses.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A running browser; killed when dropped.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    /// What pages complained about: errors of scripts, and what their policy forbids.
    pub(crate) complaints: Vec<String>,
    session: String,
    _profile: tempfile::TempDir,
}

/// What a reader's screen is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl Browser {
    /// Starts a browser that sends this value as `Authorization`. Without a browser on this machine, says so and returns
    /// `None`.
    pub(crate) fn start_or_skip(authorization: &str) -> Option<Browser> {
        let program = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
        let profile = tempfile::tempdir().unwrap();
        if Command::new(&program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            eprintln!("skipped: there is no browser {program:?}; install chromium, or name one in CHROMIUM");
            return None;
        }
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--ignore-certificate-errors",
            "--remote-debugging-pipe",
        ];
        let mut child = Command::new("sh")
            .args(["-c", START, &program])
            .args(flags)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (heard, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(out).split(0).map_while(Result::ok) {
                if heard.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let session = String::new();
        let mut browser = Browser { child, to, from, last: 0, complaints: Vec::new(), session, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        let headers = json!({"headers": {"Authorization": authorization}});
        browser.call("Network.setExtraHTTPHeaders", headers);
        Some(browser)
    }

    /// Calls a method of the protocol; returns its result.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        loop {
            let heard = self.from.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{method}: {error}"));
            if heard["id"] == self.last {
                assert!(heard["error"].is_null(), "{method}: {heard}");
                return heard["result"].clone();
            }
            self.note(&heard);
        }
    }

    fn note(&mut self, event: &Value) {
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &event["params"]["exceptionDetails"],
            Some("Log.entryAdded") if event["params"]["entry"]["level"] == "error" => &event["params"]["entry"],
            _ => return,
        };
        self.complaints.push(complaint.to_string());
    }

    /// Sets the screen of the pages that are opened from now on.
    pub(crate) fn screen(&mut self, screen: Screen) {
        let Screen { width, height, is_dark } = screen;
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// Allows scripts or not, on the pages that are opened from now on.
    pub(crate) fn scripts(&mut self, allowed: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !allowed}));
    }

    /// Opens a page, and waits until it is complete.
    pub(crate) fn open(&mut self, address: &str) {
        let opened = self.call("Page.navigate", json!({"url": address}));
        assert!(opened["errorText"].is_null(), "{address}: {opened}");
        self.wait(&format!("page {address}"), "document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Runs an expression in the page, in which promises are awaited; returns its value.
    pub(crate) fn run(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait(&mut self, what: &str, expression: &str) {
        eventually(what, || match self.run(expression) {
            Value::Bool(true) => Ok(()),
            other => Err((other, self.run("document.body?.innerText"))),
        });
    }

    /// Types a text where the focus is.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses the tabulator key.
    pub(crate) fn tab(&mut self) {
        let key = json!({"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9});
        self.call("Input.dispatchKeyEvent", key);
    }

    /// Writes a picture of what is on the screen.
    pub(crate) fn picture(&mut self, file: &Path) {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png", "optimizeForSpeed": false}));
        let picture = base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        std::fs::write(file, picture).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
