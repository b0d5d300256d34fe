-- KEYS: the tokens of a group, and its slots. ARGV as in acquire.lua, and the slot to begin with. Replies with the slot
-- and the fence, with 0 for a spent token, or with the holder whose lease ends first.
--
-- A repeated attempt has to find the slot that has its token, so all slots would have to be read. The tokens, a hash
-- with those that each slot may have, say when that is not necessary. Where they are missing all slots are read.
local count = #KEYS - 1
local tokensFormat = redis.call('HGET', KEYS[1], 'format')
if tokensFormat ~= '1' then
  local err = foreign(tokensFormat, KEYS[1])
  if err then
    return err
  end
end
local known = redis.call('HVALS', KEYS[1])
local all = #known <= count or string.find(table.concat(known, ' '), ARGV[1], 1, true)

local own, free, soonest
local formats, fences, ends, tokens, spents = {}, {}, {}, {}, {}
for offset = 0, count - 1 do
  local i = (ARGV[5] + offset) % count + 2
  local damage
  damage, formats[i], fences[i], ends[i], tokens[i], spents[i] = read(KEYS[i])
  if damage then
    return damage
  end
  if spents[i] == ARGV[1] then
    return 0
  end
  if ends[i] <= now then
    free = free or i
    if not all then
      break
    end
  elseif tokens[i] == ARGV[1] then
    own = i
  elseif not soonest or ends[i] < ends[soonest] then
    soonest = i
  end
end
if own then
  extend(KEYS[own], ends[own])
  return {own - 2, fences[own]}
end
if not free then
  return holder(KEYS[soonest], fences[soonest], ends[soonest], tokens[soonest])
end

local function note(i)
  redis.call('HSET', KEYS[1], i - 2, tokens[i] .. ' ' .. spents[i])
end
tokens[free] = ARGV[1]
if all then
  redis.call('HSET', KEYS[1], 'format', tokensFormat or '1')
  redis.call('PEXPIRE', KEYS[1], retention)
  for i = 2, count + 1 do
    note(i)
  end
else
  note(free)
end
return {free - 2, grant(KEYS[free], formats[free], fences[free], spents[free])}
