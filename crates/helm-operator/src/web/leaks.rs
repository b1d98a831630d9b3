//! A secret that is in every place of a plan where one can be appears in no view of random plans, and not on the page.
//!
//! `PLAN_SEEDS=10000` makes more plans than CI does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controller::client::rehearsal::{Checked, Refused, Write};
use go_template::Value as TemplateValue;
use serde_json::{Value, json};

use super::differences::{Compared, Differences};
use super::html;
use crate::inspect::model::Name;
use crate::mask::Mask;
use crate::plan::account::{Account, AccountEntry};
use crate::plan::brief::brief;
use crate::plan::diff::Colour;
use crate::plan::markdown::markdown;
use crate::plan::text::{Style, text};
use crate::plan::{ChangeKind, Resource, json as as_json, plan};

/// The number of plans without `PLAN_SEEDS`.
const PLANS: u64 = 300;
const SHOP: &str = "/apis/a.b/v1/namespaces/n/shops/s";

/// Numbers from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn odds(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// A secret, and the part of it that no notation changes.
struct Canary {
    whole: String,
    core: String,
}

impl Canary {
    fn random(random: &mut Random) -> Canary {
        let letters: String =
            (0..10).map(|_| char::from(b"abcdefghkmnpqrstuvwxyz23456789"[random.below(30)])).collect();
        let core = format!("kanarie{letters}");
        let whole = match random.below(5) {
            0 => format!("{core} \"<&é>"),
            1 => format!("first line of some\n{core}\n"),
            2 => format!("https://user:{core}@db/x?y=1&z=2"),
            3 => format!("'{core}': \\{core}\t"),
            _ => core.clone(),
        };
        Canary { whole, core }
    }

    /// Returns a text of a chart's that contains it.
    fn quoted(&self, random: &mut Random) -> String {
        let word = &self.whole;
        match random.below(5) {
            0 => format!("password = {word}"),
            1 => format!("a: 1\nb: {word}\nc: {}", "long ".repeat(random.below(40))),
            2 => format!("{{\"password\": {}}}", json!(word)),
            3 => STANDARD.encode(word),
            _ => word.clone(),
        }
    }

    /// Returns an object that contains it, in one of its forms.
    fn object(&self, kind: &str, name: &str, random: &mut Random) -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": "n", "uid": random.below(9).to_string(), "annotations": {}},
        });
        if random.odds(2) {
            object["metadata"]["annotations"]["note"] = self.quoted(random).into();
        }
        if random.odds(6) {
            object["metadata"]["annotations"]["helm.sh/hook"] = "pre-upgrade".into();
        }
        match kind {
            "Secret" if random.odds(4) => object["stringData"] = json!({"key": self.whole}),
            "Secret" => object["data"] = json!({"key": STANDARD.encode(&self.whole), "n": random.below(3).to_string()}),
            "ConfigMap" => object["data"] = json!({"file": self.quoted(random), "n": random.below(3).to_string()}),
            _ => object["spec"] = json!({"env": [{"name": "A", "value": self.quoted(random)}], "n": random.below(3)}),
        }
        object
    }

    /// Returns an account whose texts contain it, as one that someone else has written may.
    fn account(&self, random: &mut Random) -> Account {
        let object = crate::plan::Name { kind: "Pod".into(), name: "p".into(), ..Default::default() };
        let action = if random.odds(2) { ChangeKind::Update } else { ChangeKind::Refused };
        let entry = AccountEntry {
            fields: vec![format!("data[{:?}]", self.whole)],
            refused: random.odds(2).then(|| self.quoted(random)),
            ..AccountEntry::of(object, action)
        };
        Account { changes: vec![entry], ..Account::default() }
    }

    fn write(&self, at: usize, random: &mut Random) -> Write {
        let kind = random.one(&["Secret", "ConfigMap", "Pod"]);
        let name = format!("o{at}");
        let path = format!("/api/v1/namespaces/n/{}s/{name}", kind.to_lowercase());
        let some = |random: &mut Random| (!random.odds(4)).then(|| self.object(kind, &name, random));
        let (before, mut after) = (some(random), Ok(some(random)));
        if random.odds(5) {
            let message = format!("{kind} is invalid: {}", self.quoted(random));
            after = Err(Refused {
                code: *[409, 422].get(random.below(2)).unwrap_or(&422),
                reason: "Invalid".into(),
                message,
            });
        }
        let method = random.one(&["POST", "PATCH", "DELETE"]).to_owned();
        let sent = self.object(kind, &name, random);
        Write { method, path, sent, before, after, checked: Checked::Server }
    }

    fn resource(&self, random: &mut Random) -> Value {
        let kind = random.one(&["ReleaseFailed", "Irreconcilable", "Paused", "Deployed"]);
        let condition = json!({"type": kind, "status": "True", "reason": "Why", "message": self.quoted(random)});
        json!({"apiVersion": "a.b/v1", "kind": "Shop", "metadata": {"name": "s", "namespace": "n", "uid": "u"},
            "status": {"conditions": [condition]}})
    }
}

#[test]
fn no_view_of_a_plan_shows_a_secret() {
    let plans = std::env::var("PLAN_SEEDS").map_or(PLANS, |text| text.parse().unwrap());
    for seed in 1..=plans {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let canary = Canary::random(&mut random);
        let (resource, count) = (canary.resource(&mut random), random.below(6));
        let writes: Vec<Write> = (0..count).map(|at| canary.write(at, &mut random)).collect();
        let plan = plan(Resource { object: &resource, path: SHOP, exists: random.odds(2) }, &writes);
        // What a source of values, or an override, says.
        let mut mask = Mask::default();
        mask.add_secret(&TemplateValue::from(canary.whole.as_str()));
        let max_lines = random.odds(2).then(|| random.below(50));
        let colour = if random.odds(2) { Colour::Ansi } else { Colour::Never };
        let name = Name { group: "a.b".into(), kind: "Shop".into(), namespace: "n".into(), name: "s".into() };
        let did = canary.account(&mut random);
        let compared = Compared { plan: plan.clone(), mask: mask.clone(), did: Some(did.clone()) };
        let shown = Differences { resource: name, from: 1, to: 2, found: Ok(compared) };
        let views = [
            text(&plan, &mask, Style { colour, max_lines }),
            as_json::json(&plan, &mask).to_string(),
            markdown([(&plan, &mask)].into_iter()),
            brief(&plan, &mask, 200 + random.below(4000)),
            html::differences::differences(&shown).into_string(),
            did.lines(&mask).join("\n"),
            did.json(&mask).to_string(),
        ];
        for view in views {
            for hidden in [canary.core.clone(), STANDARD.encode(&canary.whole)] {
                assert!(!view.contains(&hidden), "seed {seed}: {hidden} of {:?} in\n{view}", canary.whole);
            }
        }
    }
}
