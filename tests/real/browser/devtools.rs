//! A headless Chromium, driven by its `DevTools` protocol over two pipes: JSON objects, each followed by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than any step takes on a loaded machine; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Chromium reads commands from descriptor 3 and answers on 4; a shell maps stdin and stdout to these. `--no-sandbox`,
/// because Chromium's sandbox does not work for root and in many containers.
const START: &str = r#"exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --user-data-dir="$0/profile" --remote-debugging-pipe about:blank 3<&0 4>&1 </dev/null >"$0/log" 2>&1"#;

/// A page in a browser of its own.
pub struct Page {
    browser: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    session: Value,
    number: u64,
    folder: TempDir,
}

/// The colour scheme that the reader prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

impl Page {
    /// Opens a URL in a window of this width, with this colour scheme preferred.
    pub fn open(url: &str, width: u32, scheme: Scheme) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut browser = Command::new("sh")
            .args(["-c", START])
            .arg(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = browser.stdin.take();
        let mut answers = BufReader::new(browser.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).unwrap_or_default() > 0 {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message) {
                    let _ = sender.send(value);
                }
                message.clear();
            }
        });
        let mut page = Self {
            browser,
            commands,
            messages,
            session: Value::Null,
            number: 0,
            folder,
        };
        page.attach();
        page.show(url, width, scheme);
        page
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", &target);
        self.session = attached["sessionId"].clone();
        self.call("Page.enable", &json!({}));
    }

    fn show(&mut self, url: &str, width: u32, scheme: Scheme) {
        let phone = width < 500;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": phone}),
        );
        let scheme = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        let gone = self.call("Page.navigate", &json!({"url": url}));
        assert_eq!(gone["errorText"], Value::Null, "{url}");
        self.wait(|message| message["method"] == "Page.loadEventFired");
    }

    /// Evaluates an expression in the page. The page's content security policy does not apply to this.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            &json!({"expression": expression, "returnByValue": true}),
        );
        assert!(
            answer["exceptionDetails"].is_null(),
            "{}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut command = json!({"id": number, "method": method, "params": params});
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        let mut text = command.to_string().into_bytes();
        text.push(0);
        let written = self.commands.as_mut().unwrap().write_all(&text);
        assert!(written.is_ok(), "{method}: {written:?}\n{}", self.log());
        let answer = self.wait(|message| message["id"] == number);
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    fn wait(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            assert!(
                message.is_ok(),
                "chromium does not answer; tools/setup installs it\n{}",
                self.log()
            );
            let message = message.unwrap();
            if is_it(&message) {
                return message;
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // If Chromium no longer takes the command, it is killed below.
        if let Some(commands) = &mut self.commands {
            let _ = commands.write_all(b"{\"id\": 0, \"method\": \"Browser.close\"}\0");
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.browser.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
