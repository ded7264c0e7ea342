"""The page at ``/`` of the administration port: how this daemon stands, live, and its views over time.

One document without anything from elsewhere. It asks ``/status`` once a second, with a credential if one is typed in;
that stays in the page's memory. Everything that daemons say is put in as text, never as markup.
"""

from __future__ import annotations

from isotone.daemon.admin.http import Response

_STYLE = """
:root{color-scheme:light dark;--ink:#1f2933;--paper:#fff;--soft:#52606d;--faint:#d5dbe1;--good:#1d7a3d;--bad:#b3261e}
@media (prefers-color-scheme:dark){
:root{--ink:#e4e7eb;--paper:#16191d;--soft:#9aa5b1;--faint:#3a424c;--good:#5cc98a;--bad:#ff8a80}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
body{margin:0 auto;max-width:70rem;padding:1rem}
h1{font-size:1.25rem;margin:.2rem 0}h2{font-size:1rem;margin:1.2rem 0 .3rem}
table{border-collapse:collapse}td,th{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top}
td{white-space:nowrap}th{color:var(--soft);font-weight:500}.scroll{overflow-x:auto}
@media (max-width:480px){td,th{padding-right:.55rem;font-size:.92rem}}
.good{color:var(--good)}.bad{color:var(--bad)}.soft{color:var(--soft)}
ul{margin:.2rem 0;padding-left:1.2rem}input{font:inherit}
"""

_SCRIPT = """
const byId = (id) => document.getElementById(id);
const views = [];
let credential = "";
const element = (name, text, style) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (style) made.className = style;
  return made;
};
const fill = (id, heads, rows) => {
  const table = element("table"), head = element("tr");
  heads.forEach((each) => head.append(element("th", each)));
  table.append(head);
  rows.forEach((row) => {
    const line = element("tr");
    row.forEach((cell) => line.append(cell instanceof Node ? cell : element("td", cell)));
    table.append(line);
  });
  byId(id).replaceChildren(rows.length ? table : element("p", "none", "soft"));
};
const bytes = (count) => count < 1024 ? count + " B" : count < 1048576 ? (count / 1024).toFixed(1) + " KiB"
  : (count / 1048576).toFixed(1) + " MiB";
const time = (us) => us >= 1000000 ? (us / 1000000).toFixed(1) + " s" : us ? (us / 1000).toPrecision(3) + " ms" : "-";
function wrongs(status) {
  const found = [];
  (status.faults || []).forEach((rule) => found.push("injected fault towards " + rule.daemon
    + (rule.cut ? ": all packets are lost" : "")));
  const cut = (status.faults || []).filter((rule) => rule.cut).map((rule) => rule.daemon);
  status.stack.peers.filter((peer) => peer.suspected && !cut.includes(peer.name)).forEach((peer) =>
    found.push(peer.suspected.split(". Waited")[0] + " (heard " + time(peer.silent_us) + " ago)"));
  status.clients.filter((client) => client.blocks).forEach((client) =>
    found.push("client " + client.name + " does not read: " + bytes(client.held_bytes)
      + " wait for it, senders to its groups ("
      + client.blocked_groups.join(", ") + ") have waited for " + time(client.blocks_us)));
  if (!status.ready) found.push(status.why_not_ready);
  return found;
}
function show(status) {
  const view = status.stack.view;
  document.title = status.name + (status.ready ? ": ready" : ": not ready");
  byId("name").textContent = status.name + " in site " + status.stack.site + ", cluster " + status.cluster;
  byId("state").replaceChildren(element("b", status.ready ? "ready" : "not ready", status.ready ? "good" : "bad"),
    document.createTextNode(", sees " + view.members.join(", ")));
  const list = element("ul");
  wrongs(status).forEach((text) => list.append(element("li", text, "bad")));
  byId("wrongs").replaceChildren(list.children.length ? list : element("p", "nothing", "soft"));
  const last = views[views.length - 1];
  if (!last || last.view !== view.daemon_view) {
    views.push({view: view.daemon_view, members: view.members.join(" "), at: new Date().toLocaleTimeString()});
    if (views.length > 50) views.shift();
  }
  fill("views", ["since", "sees", "daemon view"],
    views.slice().reverse().map((each) => [each.at, each.members, each.view]));
  fill("groups", ["group", "members", "here"], status.groups.map((group) =>
    [group.name, String(group.members_total), String(group.local)]));
  fill("clients", ["client", "kind", "groups", "waiting to be read", ""], status.clients.map((client) =>
    [client.name, client.kind, String(client.groups), bytes(client.held_bytes),
     element("td", client.blocks ? "senders wait for it" : client.connected ? "" : "away", "bad")]));
  fill("peers", ["daemon", "site", "state", "round trip", "lost", "heard ago"], status.stack.peers.map((peer) =>
    [peer.name, peer.site, element("td", peer.suspected ? "suspected" : peer.reached ? "reached" : "not reached",
      peer.reached && !peer.suspected ? "good" : "bad"), time(peer.round_trip_us),
     (peer.lost_ppm / 10000).toFixed(1) + " %", time(peer.silent_us)]));
}
async function look() {
  try {
    const headers = credential ? {Authorization: "Bearer " + credential} : {};
    const answer = await fetch("status", {headers});
    byId("credential").hidden = answer.ok;
    if (answer.ok) {
      show(await answer.json());
      byId("note").textContent = "as of " + new Date().toLocaleTimeString();
    } else {
      byId("note").textContent = "refused: " + ((await answer.json()).error || answer.status);
    }
  } catch (error) {
    byId("note").textContent = "the daemon does not answer";
    byId("state").replaceChildren(element("b", "no answer", "bad"));
  }
  setTimeout(look, 1000);
}
byId("credential").addEventListener("submit", (event) => {
  event.preventDefault();
  credential = byId("secret").value.trim();
});
look();
"""

_BODY = """
<h1 id="name">Isotone</h1><p id="state">asking the daemon</p><p id="note" class="soft"></p>
<form id="credential" hidden><label>Credential of an administrator <input id="secret" type="password"
autocomplete="off"></label>
<button>Show</button></form>
<h2>What is wrong</h2><div id="wrongs"></div>
<h2>Views over time, as this page saw them</h2><div id="views" class="scroll"></div>
<h2>Groups</h2><div id="groups" class="scroll"></div>
<h2>Clients</h2><div id="clients" class="scroll"></div>
<h2>Other daemons</h2><div id="peers" class="scroll"></div>
"""

PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
    f"<title>Isotone</title><style>{_STYLE}</style></head><body>{_BODY}<script>{_SCRIPT}</script></body></html>\n"
)
_HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cache-Control", "no-store"),
)


def page_response() -> Response:
    """The page; it tells nothing by itself, so everybody may have it."""
    return Response(200, PAGE.encode(), "text/html; charset=utf-8", _HEADERS)
