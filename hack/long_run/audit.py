"""Reads the audit log: what each operator wrote while it did not hold the lease, and what the API server refused."""
import collections
import datetime
import json

from long_run.operators import RENEW_DEADLINE, SYSTEM

# How much later than it was sent a request may reach a busy API server, in seconds.
LATE = 1.0
READS = {"get", "list", "watch"}


def requests(log):
    """Yields the operators' requests in the order in which they arrived."""
    user = f"system:serviceaccount:{SYSTEM}:"
    with open(log) as lines:
        # The last line may be incomplete.
        events = [json.loads(line) for line in lines if user in line and line.endswith("}\n")]
    return sorted(events, key=lambda event: event["requestReceivedTimestamp"])


def seconds(event, field="requestReceivedTimestamp"):
    return datetime.datetime.fromisoformat(event[field].replace("Z", "+00:00")).timestamp()


def judge(log, leases):
    """`leases`: the name of the lease of each operator."""
    # The last write of each lease: by whom, for whom, and when it arrived.
    held, late, counts, refused = {}, [], collections.Counter(), collections.Counter()
    for event in requests(log):
        name = event["user"]["username"].rsplit(":", 1)[1]
        reference, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
        if code in (401, 403):
            refused[f"{code} {event['verb']} {reference.get('resource')}"] += 1
        if event["verb"] in READS:
            continue
        if reference.get("resource") == "leases":
            if code < 300:
                holder = event["requestObject"]["spec"].get("holderIdentity", "")
                held[reference["name"]] = name, holder, seconds(event)
            continue
        counts[name] += 1
        holder, identity, since = held.get(leases[name], (None, "", 0))
        age = seconds(event) - since
        if holder != name or not identity or age > RENEW_DEADLINE + LATE:
            what = f"{event['verb']} {reference.get('resource')} {reference.get('namespace')}/{reference.get('name')} {code}"
            late.append({"by": name, "what": what, "holder": identity, "renewed_s_ago": round(age, 2), "at": event["requestReceivedTimestamp"]})
    return {"writes": counts, "late_writes": late, "refused": refused}
