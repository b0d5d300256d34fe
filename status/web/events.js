// The last events of the history.

import { duration, foreign, make, short, stamp, visible } from "./text.js"

const kinds = {
  Running: ["leads", "good"],
  Succeeded: ["has finished", "calm"],
  Failed: ["has failed", "bad"],
  Lost: ["has lost it", "bad"],
  Canceled: ["was ended by its caller", "calm"],
  Skipped: ["was skipped", "quiet"],
  NotRun: ["did not run", "bad"],
  ForcedRelease: ["was released by force", "bad"],
  ForcedReleaseAsked: ["is to be released by force", "bad"],
  ForcedReleaseFailed: ["was not released by force", "bad"],
  ForcedReleaseUnknown: ["may have been released by force", "bad"],
}

const reasons = new Map([
  ["Contended", "another leads"],
  ["NotPreferred", "another is preferred"],
  ["AlreadyRan", "it has run already"],
  ["BackendFailed", "the store failed"],
])

export function showEvents(events, withSkipped, list, none) {
  const now = Date.now()
  const shown = events.filter(e => withSkipped || e.status !== "Skipped")
  list.replaceChildren(...shown.map(e => item(e, now)))
  none.hidden = shown.length > 0
}

function item(e, now) {
  const [verb, level] = kinds[e.status] ?? [e.status, "calm"]
  const words = make("p", "what", [foreign(short(e.name), "event-name"), " "])
  if (e.slot !== undefined) words.append(make("span", "quiet", `slot ${e.slot} `))
  if (e.node) words.append(foreign(short(e.node)), " ")
  words.append(make("span", "verb", verb))
  const notes = []
  if (e.status === "Skipped" && e.reason) {
    const why = reasons.get(e.reason) ?? visible(e.reason)
    notes.push(make("span", "", e.holder ? [why, ": ", foreign(short(e.holder))] : why))
  }
  if (e.by) notes.push(make("span", "", ["asked by ", foreign(e.by)]))
  if (e.held) notes.push(make("span", "", `held ${duration(e.held)}`))
  if (e.fence) notes.push(make("span", "", `fence ${e.fence}`))
  const li = make("li", "", [stamp(e.time, now), make("i", "dot"), words])
  li.dataset.level = level
  if (notes.length) li.append(make("p", "notes", notes))
  const texts = e.status === "Canceled" ? [] : [e.lost, e.error]
  for (const text of new Set(texts)) if (text) li.append(make("p", "detail", [foreign(text)]))
  return li
}
