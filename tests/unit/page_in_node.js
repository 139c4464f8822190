// Runs the script of the example page in Node, with just enough of a browser around it.
// Usage: node --experimental-websocket page_in_node.js SCRIPT ORIGIN TOKEN CALL...
"use strict";
const [script, origin, token, ...calls] = process.argv.slice(2);

class Part {
  constructor() { Object.assign(this, {children: [], listeners: {}, value: "", className: ""}); }
  set textContent(text) { this.text = text; if (this.id) console.log(JSON.stringify({part: this.id, class: this.className, text})); }
  get textContent() { return this.text ?? ""; }
  get lastElementChild() { const last = this.children.at(-1); return {remove: () => this.children.pop(), last}; }
  append(...parts) { this.children.push(...parts); }
  prepend(item) {
    this.children.unshift(item);
    console.log(JSON.stringify({shown: item.className || "notification", text: item.children.map((one) => one.text).join(" ")}));
  }
  remove() {}
  setAttribute() {}
  focus() {}
  select() {}
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  requestSubmit() { this.listeners.submit({preventDefault() {}}); }
}

const parts = {};
globalThis.document = {
  getElementById: (id) => (parts[id] ??= Object.assign(new Part(), {id})),
  createElement: () => new Part(),
};
globalThis.location = {origin, protocol: "http:", pathname: "/", hash: `#token=${encodeURIComponent(token)}`};
globalThis.history = {replaceState: () => { location.hash = ""; }};

if (origin === "parse") {
  globalThis.WebSocket = class { addEventListener() {} };
  const parse = new Function(`${require("fs").readFileSync(script, "utf8").split("// ── The session")[0]}; return parseCall;`)();
  console.log(JSON.stringify(calls.map((call) => { try { return parse(call); } catch (error) { return {error: error.message}; } })));
} else {
  require("vm").runInThisContext(require("fs").readFileSync(script, "utf8"));
  const wait = setInterval(() => {
    if (parts.status.className !== "live") return;
    clearInterval(wait);
    for (const call of calls) {
      parts.call.value = call;
      parts.subscribe.requestSubmit();
    }
  }, 10);
}
