// The question before a release is forced.

import { visible } from "./text.js"

const byId = id => document.getElementById(id)
const dialog = byId("release")
const error = byId("release-error")
let asked = null

// ask shows the question about a lease of a lock, or of its slot of that number.
export function ask(lock, lease, slot) {
  asked = new URLSearchParams({ namespace: lock.namespace ?? "", name: lock.name, fence: lease.fence })
  if (slot !== undefined) asked.set("slot", slot)
  byId("release-name").textContent = visible(lock.name) + (slot === undefined ? "" : `, slot ${slot}`)
  byId("release-node").textContent = visible(lease.leaderId ?? lease.lastLeaderId ?? "its last leader")
  byId("release-fence").textContent = lease.fence
  error.hidden = true
  dialog.showModal()
}

byId("release-no").addEventListener("click", () => dialog.close())
byId("release-yes").addEventListener("click", async event => {
  event.target.disabled = true
  try {
    // A redirection leads to a login, and what that answers is no release.
    const answer = await fetch("release", { method: "POST", body: asked, redirect: "error" })
    if (answer.ok) {
      dialog.close()
      return
    }
    const { error: text } = await answer.json().catch(() => ({}))
    show(text ?? `refused: ${answer.status}`)
  } catch {
    show("the server of this page cannot be reached")
  } finally {
    event.target.disabled = false
  }
})

function show(text) {
  error.textContent = visible(text)
  error.hidden = false
}
