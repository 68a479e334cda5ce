--- Tooltips of HTML pages: one style for all pages, and for figures a script that shows the titles of their parts at
-- once instead of after the browser's delay.
local core = require "tperf.core"

local hover = {}

hover.style = [[
#tip, .tip { position: fixed; pointer-events: none; background: var(--ink); color: var(--paper); padding: .3rem .55rem;
  border-radius: 4px; font-size: .85rem; line-height: 1.5; white-space: pre-line; max-width: min(26rem, 90vw);
  z-index: 2; }
]]

-- placeTip(tip, text, x, y) shows a tip beside the pointer. showTitles(root, tip) shows the titles of a figure's parts
-- in it, and turns each title into a label, because the browser would show it a second time.
hover.script = [==[
"use strict";
const placeTip = (tip, text, x, y) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(Math.min(x + 14, innerWidth - box.width - 6), 0) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
};
const showTitles = (root, tip) => {
  root.addEventListener("pointermove", event => {
    const e = event.target.closest && event.target.closest("figure svg > *, figure svg g > *");
    const title = e && [...e.children].find(child => child.localName === "title");
    if (title) {
      e.setAttribute("aria-label", title.textContent);
      e.setAttribute("data-tip", title.textContent);
      title.remove();
    }
    const text = e && e.getAttribute("data-tip");
    if (text) placeTip(tip, text, event.clientX, event.clientY);
    else if (event.target.closest && event.target.closest("figure")) tip.hidden = true;
  });
  root.addEventListener("pointerout", event => { if (!event.relatedTarget) tip.hidden = true; });
};
]==]

local ALPHABET <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

--- 'sha256-…': how a Content-Security-Policy names the one text that may run, or style (RFC 4648, W3C CSP 3).
---@param text string
---@return string
function hover.policy_hash(text)
  local out, bits, held = {}, 0, 0
  for hex in core.file.sha256(text):gmatch "%x%x" do
    bits, held = bits << 8 | tonumber(hex, 16), held + 8
    while held >= 6 do
      held = held - 6
      local digit = bits >> held & 63
      out[#out + 1] = ALPHABET:sub(digit + 1, digit + 1)
    end
    bits = bits & (1 << held) - 1
  end
  local last = bits << 6 - held & 63 -- 256 bits are 42 digits and four bits
  return ("'sha256-%s%s='"):format(table.concat(out), ALPHABET:sub(last + 1, last + 1))
end

return hover
