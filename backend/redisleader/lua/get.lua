-- Replies with the clock, and then with the field and the content of each record of the set. Expired ones are deleted.
local reply, expired = {now}, {}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  if string.sub(stored[i], 1, 1) == '/' then
    local version, exists = parse(stored[i + 1])
    if not version then
      return redis.error_reply('LEADERFORMAT a record of the set is damaged')
    end
    if exists then
      reply[#reply + 1] = stored[i]
      reply[#reply + 1] = stored[i + 1]
    else
      expired[#expired + 1] = stored[i]
    end
  end
end
for _, field in ipairs(expired) do
  redis.pcall('HDEL', KEYS[1], field)
end
if #expired > 0 then
  forget()
end
return reply
