// The page: what the server sends, and what of it is shown in which order.

import { showEvents } from "./events.js"
import { ask } from "./release.js"
import { idOf, order, Row } from "./rows.js"
import { duration, set, visible } from "./text.js"

const byId = id => document.getElementById(id)
const rows = new Map() // by id
const inView = new Set() // rows whose clocks have to move
const view = { search: "", filter: "all", sort: "name", skipped: false }
// Few names are shown with all that is known of them.
const fewNames = 30

let status = null // the last message, without what it is about
let events = []
let heard = performance.now() // when it came
let alive = heard // when the server was heard of last, which may have had nothing to tell
let connected = false

// serverNow is the server's clock, as far as this page can tell, in ms.
const serverNow = () => status ? Date.parse(status.now) + performance.now() - heard : Date.now()

const observer = new IntersectionObserver(entries => {
  for (const e of entries) {
    const row = rows.get(e.target.dataset.id)
    if (!row || row.element !== e.target) continue
    if (e.isIntersecting) {
      inView.add(row)
      row.tick(serverNow())
    } else inView.delete(row)
  }
}, { rootMargin: "200px" })

function take(message) {
  const before = status?.asked
  heard = alive = performance.now()
  status = message
  document.body.classList.toggle("can-release", message.release)
  let changed = Boolean(message.full)
  if (message.full) {
    const present = new Set(message.locks.map(idOf))
    for (const id of rows.keys()) if (!present.has(id)) drop(id)
  }
  const few = rows.size + message.locks.length <= fewNames
  for (const lock of message.locks) {
    changed = true
    put(lock, few, before)
  }
  for (const gone of message.gone ?? []) {
    changed = true
    drop(idOf(gone))
  }
  if (message.events || message.full) {
    events = message.events ?? []
    drawEvents()
  }
  if (changed) arrange()
  drawState()
}

// put shows a lock. It is marked as changed if what was shown before was true once.
function put(lock, few, marked) {
  const id = idOf(lock)
  const row = rows.get(id)
  if (row) {
    const { fence, leaderId } = row.lock
    row.update(lock)
    if (marked && (fence !== lock.fence || leaderId !== lock.leaderId)) flash(row.element)
  } else {
    const added = new Row(lock, status.release ? ask : null, few)
    added.element.dataset.id = id
    rows.set(id, added)
    observer.observe(added.element)
  }
  rows.get(id).tick(serverNow())
}

function drop(id) {
  const row = rows.get(id)
  if (!row) return
  observer.unobserve(row.element)
  inView.delete(row)
  row.element.remove()
  rows.delete(id)
}

function flash(element) {
  element.classList.remove("changed")
  void element.offsetWidth // restarts the animation
  element.classList.add("changed")
}

// arrange shows the rows that are asked for, in the order that is asked for, and moves none that is in its place.
function arrange() {
  const counts = { all: rows.size, led: 0, free: 0, kept: 0 }
  for (const row of rows.values()) counts[row.kind]++
  for (const b of byId("filters").children) set(b.querySelector("b"), String(counts[b.dataset.filter]))
  const compare = order(view.sort)
  const shown = [...rows.values()]
    .filter(row => (view.filter === "all" || row.kind === view.filter) && row.text.includes(view.search))
    .sort((a, b) => compare(a.lock, b.lock))
  const body = byId("rows")
  const wanted = new Set(shown.map(row => row.element))
  for (const e of [...body.children]) if (!wanted.has(e)) e.remove()
  let next = body.firstChild
  for (const { element } of shown) {
    if (element === next) next = next.nextSibling
    else body.insertBefore(element, next)
  }
  const none = byId("none")
  none.hidden = shown.length > 0
  set(none, rows.size ? "No name matches." : status?.asked ? "Nobody leads anything, and nobody has." : "")
}

function drawEvents() {
  byId("events").hidden = !status.history
  document.body.classList.toggle("with-events", status.history)
  showEvents(events, view.skipped, byId("event-list"), byId("no-events"))
}

// drawState says how old what is shown is, and what is wrong.
function drawState() {
  const backend = byId("backend")
  if (status) {
    backend.hidden = false
    set(backend, visible(status.backend))
  }
  const silent = (performance.now() - heard) / 1000
  const age = status?.age == null ? null : status.age + silent
  const shown = age === null ? "" : `shown is what was true ${duration(age)} ago`
  const problems = [...(status?.problems ?? [])]
  let level = "good", text = "live"
  if (!connected || performance.now() - alive > 6000) {
    level = "bad"
    text = status ? "connection lost, trying again" : "connecting"
    problems.unshift("the server of this page does not answer")
  } else if (status?.stale) {
    level = status.problems ? "bad" : "wait"
    text = status.problems ? "store down" : "asking the store"
  }
  if (!status && silent < 3) level = "wait", problems.length = 0
  const state = byId("state")
  state.dataset.level = level
  set(state, text)
  document.body.classList.toggle("stale", level === "bad")
  const problem = byId("problem")
  if (status?.omitted) problems.push(`${status.omitted} more names are not shown`)
  problem.hidden = problems.length === 0
  const sentence = problems.map(visible).join("; ")
  set(problem, sentence.charAt(0).toUpperCase() + sentence.slice(1) + (level === "bad" && shown ? `; ${shown}.` : "."))
}

function connect() {
  const stream = new EventSource("events")
  stream.onmessage = event => {
    connected = true
    take(JSON.parse(event.data))
  }
  stream.addEventListener("alive", () => {
    connected = true
    alive = performance.now()
  })
  stream.onerror = () => {
    connected = false
    drawState()
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 3000) // it was refused, as too many watch
  }
}

function tick() {
  if (document.hidden) return
  const now = serverNow()
  for (const row of inView) row.tick(now)
  drawState()
}

byId("search").addEventListener("input", event => {
  view.search = event.target.value.trim().toLowerCase()
  arrange()
})
byId("filters").addEventListener("click", event => {
  const b = event.target.closest("button")
  if (!b) return
  view.filter = b.dataset.filter
  for (const other of byId("filters").children) other.setAttribute("aria-pressed", String(other === b))
  arrange()
})
function sortBy(sort) {
  view.sort = sort
  byId("sort").value = sort
  for (const b of document.querySelectorAll("[data-sort]")) {
    b.setAttribute("aria-sort", b.dataset.sort === sort.replace("-down", "") ? "ascending" : "none")
  }
  arrange()
}
byId("sort").addEventListener("change", event => sortBy(event.target.value))
for (const b of document.querySelectorAll("[data-sort]")) {
  b.addEventListener("click", () => sortBy(b.dataset.sort === "held" && view.sort === "held" ? "held-down" : b.dataset.sort))
}
byId("skipped").addEventListener("change", event => {
  view.skipped = event.target.checked
  drawEvents()
})
document.addEventListener("visibilitychange", tick)

sortBy("name")
connect()
setInterval(tick, 500)
