// Texts come from other processes: they are shown as text only, and what could mislead the eye as its code point.

const invisible = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu

export function visible(text) {
  return String(text ?? "").replace(invisible, c => `\u27e8U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`)
}

// make returns an element with a class and either a text or children.
export function make(tag, className, content) {
  const e = document.createElement(tag)
  if (className) e.className = className
  if (Array.isArray(content)) e.append(...content.filter(Boolean))
  else if (content !== undefined) e.textContent = visible(content)
  return e
}

// foreign is a text of other processes, which cannot change the direction of what stands beside it.
export function foreign(text, className) {
  const e = make("bdi", className, text)
  e.title = visible(text)
  return e
}

export function set(e, text) {
  if (e.textContent !== text) e.textContent = text
}

// duration is a time in seconds, in its two largest units.
export function duration(s) {
  if (s > 0 && s < 1) return `${Math.max(1, Math.round(s * 1000))} ms`
  if (s < 60) return `${Math.floor(Math.max(0, s))} s`
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]
  const i = units.findIndex(([, size]) => s >= size)
  const [large, size] = units[i]
  const [small, rest] = units[i + 1]
  const n = Math.floor((s % size) / rest)
  return `${Math.floor(s / size)} ${large}` + (n ? ` ${n} ${small}` : "")
}

// left is a time in seconds, the more exact the nearer its end is.
export function left(s) {
  if (s >= 600 && s < 3600) return `${Math.floor(s / 60)} min`
  return s < 10 ? `${Math.max(0, s).toFixed(1)} s` : duration(s)
}

// short is a text for where there is little room.
export function short(text) {
  const all = [...String(text)]
  return all.length > 60 ? all.slice(0, 59).join("") + "\u2026" : all.join("")
}

const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" })
const fullTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" })
const dayTime = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" })

// moment is a time of day, with the day unless that is today.
export function moment(iso, now) {
  const t = new Date(iso)
  return Math.abs(now - t) < 20 * 3600 * 1000 ? clockTime.format(t) : dayTime.format(t)
}

export function exactly(iso) {
  return fullTime.format(new Date(iso))
}

// stamp is an element with a moment.
export function stamp(iso, now, className) {
  const e = make("time", className, moment(iso, now))
  e.dateTime = iso
  e.title = exactly(iso)
  return e
}
