// The rows: one for each name, with its slots, candidates and metadata below it.

import { duration, exactly, foreign, left, make, set, visible } from "./text.js"

export const idOf = l => JSON.stringify([l.namespace ?? "", l.name, Boolean(l.group)])

// kindOf is the filter under which a name is counted.
export function kindOf(l) {
  if (l.status !== "Occupied") return "free"
  if (l.group) return l.slots.some(s => !s.kept) ? "led" : "kept"
  return l.kept ? "kept" : "led"
}

// Row is a name on the page. open is called with a lease whose release is to be forced; it is null where that cannot be.
// If few names are shown, slots and candidates are until they are folded.
export class Row {
  constructor(lock, open, few) {
    this.element = make("div", "row")
    this.element.setAttribute("role", "rowgroup")
    this.open = open
    this.few = few
    this.chosen = undefined // whether somebody has unfolded or folded it
    this.update(lock)
  }

  get unfolded() {
    return this.chosen ?? (this.few && Boolean(this.lock.group || this.lock.candidates))
  }

  update(lock) {
    this.lock = lock
    this.kind = kindOf(lock)
    this.text = haystack(lock)
    this.ticking = []
    this.element.dataset.kind = this.kind
    this.element.dataset.name = visible(lock.name)
    const details = this.details()
    this.element.replaceChildren(this.line(details), ...(details ? [details] : []))
  }

  line(details) {
    const l = this.lock
    const name = make("div", "cell name", [
      details ? this.folder(details) : make("span", "fold"),
      make("div", "label", [
        l.namespace ? foreign(l.namespace + "/", "namespace") : null,
        foreign(l.name),
        l.candidates ? make("span", "note", count(l.candidates.length, "candidate")) : null,
      ]),
    ])
    const line = make("div", "line")
    line.setAttribute("role", "row")
    line.append(name, ...(l.group ? this.groupCells() : this.leaseCells(l)))
    for (const cell of line.children) cell.setAttribute("role", "cell")
    return line
  }

  folder(details) {
    const b = make("button", "fold")
    b.type = "button"
    const show = () => {
      details.hidden = !this.unfolded
      b.setAttribute("aria-expanded", String(this.unfolded))
      b.setAttribute("aria-label", this.unfolded ? "Hide details" : "Show details")
    }
    b.addEventListener("click", () => {
      this.chosen = !this.unfolded
      show()
    })
    show()
    return b
  }

  groupCells() {
    const taken = this.lock.slots?.length ?? 0
    const n = Math.max(this.lock.capacity ?? 0, taken)
    const pips = make("span", "pips")
    pips.setAttribute("aria-hidden", "true")
    for (let i = 0; i < Math.min(n, 24); i++) pips.append(make("i", i < taken ? "taken" : ""))
    const text = this.lock.capacity ? `${taken} of ${this.lock.capacity} slots` : count(taken, "slot") + " taken"
    return [
      make("div", "cell leader", [pips, make("span", taken ? "" : "quiet", text)]),
      ...blank(),
    ]
  }

  // leaseCells are the cells of a lease; slot is its number in a group.
  leaseCells(l, slot) {
    const leader = make("div", "cell leader", [make("i", "dot")])
    if (l.leaderId !== null) leader.append(foreign(l.leaderId))
    else if (l.kept) leader.append(make("span", "quiet", "kept taken"), after(l.lastLeaderId))
    else leader.append(make("span", "quiet", "nobody"), after(l.lastLeaderId))
    const since = make("div", "cell since")
    if (l.since) {
      const held = make("time")
      held.dateTime = l.since
      held.title = "since " + exactly(l.since)
      since.append(held)
      this.ticking.push(now => set(held, heldFor((now - Date.parse(l.since)) / 1000)))
    }
    const fence = make("div", "cell fence", [l.fence ? make("span", "", l.fence) : null])
    const act = make("div", "cell act")
    if (this.open && l.fence) {
      const b = make("button", "force", "Release")
      b.type = "button"
      b.addEventListener("click", () => this.open(this.lock, l, slot))
      act.append(b)
    }
    return [leader, since, this.leftCell(l), fence, act]
  }

  leftCell(l) {
    const cell = make("div", "cell left")
    if (!l.leaseExpiry) {
      if (l.status === "Occupied") cell.append(make("span", "quiet", "unknown"))
      return cell
    }
    const bar = make("i", "bar", [make("i", "fill")])
    const text = make("span")
    cell.append(bar, text)
    const end = Date.parse(l.leaseExpiry)
    this.ticking.push(now => {
      const s = (end - now) / 1000
      const share = Math.min(1, Math.max(0, s / (l.leaseTime || 1)))
      bar.firstChild.style.transform = `scaleX(${share.toFixed(4)})`
      cell.dataset.level = s <= 0 ? "over" : share < 0.34 ? "low" : "fine"
      set(text, s <= 0 ? "over" : left(s))
    })
    return cell
  }

  details() {
    const l = this.lock
    const parts = []
    for (const s of l.slots ?? []) {
      const label = make("div", "label", [make("span", "number", `slot ${s.slot}`)])
      const line = make("div", "line slot", [make("div", "cell name", [label]), ...this.leaseCells(s, s.slot)])
      parts.push(line)
      if (s.metadata) parts.push(facts(s.metadata))
    }
    for (let i = 0; l.group && i < Math.min(64, l.capacity ?? 0); i++) {
      if (!(l.slots ?? []).some(s => s.slot === i)) parts.push(freeSlot(i))
    }
    if (l.candidates) parts.push(candidates(l))
    if (l.metadata) parts.push(facts(l.metadata))
    if (!parts.length) return null
    return make("div", "details", l.group ? sortSlots(parts) : parts)
  }

  // tick moves what depends on the time.
  tick(now) {
    for (const f of this.ticking) f(now)
  }
}

// sortSlots puts free slots between the taken ones, each with the metadata that follows it.
function sortSlots(parts) {
  const blocks = []
  for (const p of parts) {
    if (p.classList.contains("slot")) blocks.push([p])
    else blocks.at(-1)?.push(p)
  }
  const number = block => Number(block[0].querySelector(".number").textContent.slice(5))
  return blocks.sort((a, b) => number(a) - number(b)).flat()
}

function freeSlot(i) {
  return make("div", "line slot free", [
    make("div", "cell name", [make("div", "label", [make("span", "number", `slot ${i}`)])]),
    make("div", "cell leader", [make("i", "dot"), make("span", "quiet", "free")]),
    ...blank(),
  ])
}

// blank are the cells of a line that is about no lease.
const blank = () => ["since", "left", "fence", "act"].map(column => make("div", `cell ${column}`))

const heldFor = s => s < 1 ? "now" : duration(s)

function after(node) {
  return node ? make("span", "after quiet", [document.createTextNode("after "), foreign(node)]) : ""
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`

function facts(metadata) {
  return make("dl", "facts", Object.entries(metadata).sort().map(([k, v]) =>
    make("div", "", [make("dt", "", [foreign(k)]), make("dd", "", [foreign(v)])])))
}

function candidates(l) {
  const scored = l.candidates.some(c => c.score !== null)
  const list = l.candidates.map(c => {
    const item = make("li", c.preferred ? "preferred" : "", [
      make("div", "who", [
        foreign(c.node),
        c.preferred ? make("span", "tag", "preferred") : null,
        c.node === l.leaderId ? make("span", "tag leads", "leads") : null,
      ]),
      scored ? make("div", "score number", c.score === null ? "–" : String(Math.round(c.score * 100) / 100)) : null,
      make("div", "why", c.why ?? ""),
      make("div", "runs", c.successes + c.failures ? `${c.successes} ok, ${c.failures} failed` : "no runs yet"),
    ])
    if (c.metadata) item.append(facts(c.metadata))
    return item
  })
  const ol = make("ol", scored ? "candidates scored" : "candidates", list)
  ol.setAttribute("aria-label", "Candidates, best first")
  return ol
}

// haystack is what the search looks at.
function haystack(l) {
  const parts = [l.name, l.namespace]
  for (const x of [l, ...(l.slots ?? [])]) {
    parts.push(x.leaderId, x.lastLeaderId, ...Object.entries(x.metadata ?? {}).flat())
  }
  for (const c of l.candidates ?? []) parts.push(c.node)
  return parts.filter(Boolean).join("\n").toLowerCase()
}

// order compares two locks as the sort asks.
export function order(sort) {
  const leader = l => l.leaderId ?? l.slots?.find(s => s.leaderId)?.leaderId ?? "\uffff"
  const first = (l, key) => Math.min(...[l, ...(l.slots ?? [])].map(x => x[key] ? Date.parse(x[key]) : Infinity))
  const collator = new Intl.Collator(undefined, { numeric: true })
  const byName = (a, b) => collator.compare(a.name, b.name) || collator.compare(a.namespace ?? "", b.namespace ?? "") ||
    Number(a.group ?? false) - Number(b.group ?? false)
  const compare = (x, y) => x === y ? 0 : x < y ? -1 : 1
  const byLeader = (a, b) => compare(leader(a), leader(b))
  const latest = l => Math.max(...[l, ...(l.slots ?? [])].map(x => x.since ? Date.parse(x.since) : -Infinity))
  const orders = {
    "name": byName,
    "leader": byLeader,
    "held-down": (a, b) => compare(first(a, "since"), first(b, "since")),
    "held": (a, b) => compare(latest(b), latest(a)),
    "left": (a, b) => compare(first(a, "leaseExpiry"), first(b, "leaseExpiry")),
  }
  return (a, b) => (orders[sort] ?? byName)(a, b) || byName(a, b)
}
