-- KEYS: the record, and the tokens of its group if it is a slot, which are to be collected anew.
-- ARGV: token, ttl in µs, owner, metadata. Replies with the fence, with 0 for a spent token, or with the holder.
if spent == ARGV[1] then
  return 0
end
if not live then
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
  return grant(KEYS[1], format, fence, spent)
end
if token == ARGV[1] then
  extend(KEYS[1], ends)
  return fence
end
return holder(KEYS[1], fence, ends, token)
