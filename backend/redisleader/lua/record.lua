-- The record of KEYS[1].
local damage, format, fence, ends, token, spent = read(KEYS[1])
if damage then
  return damage
end
local live = ends > now
