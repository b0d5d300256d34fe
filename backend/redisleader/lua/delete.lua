-- ARGV: field, version. Replies with 1, also for a missing record, or with 0 if another version is stored.
local version, exists = parse(redis.call('HGET', KEYS[1], ARGV[1]))
if not version then
  return redis.error_reply('LEADERFORMAT the record is damaged')
end
if exists and version ~= ARGV[2] then
  return 0
end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
  forget()
end
return 1
