# Trains twelve steps and generates, through the C interface: ruby train.rb LIBTOY CORPUS OUT
require "fiddle"
require "json"

library, corpus, out = ARGV
abort "usage: ruby train.rb LIBTOY CORPUS OUT" unless out
handle = Fiddle.dlopen(library)
pointer, int = Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT
call = ->(name, arguments, result = int) { Fiddle::Function.new(handle[name], arguments, result) }
LAST_ERROR = call["toy_last_error", [], pointer]
FREE = call["toy_free", [pointer], Fiddle::TYPE_VOID]

def done(status)
  abort LAST_ERROR.call.to_s unless status.zero?
end

# The text that a function gives through a pointer.
def text_of(place)
  text = place.ptr.to_s.force_encoding("UTF-8").scrub
  FREE.call(place.ptr)
  text
end

see = Fiddle::Closure::BlockCaller.new(int, [pointer, pointer]) do |_, json|
  event = JSON.parse(json.to_s)
  puts "step #{event["step"]} loss #{event["loss"].round(4)}" if event["kind"] == "step"
  0 # another number ends the run
end
options = { corpus: corpus, size: "tiny", tokenizer: "spm:300", steps: 12, batch: 2, tokens: 64, out: out }
result = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP)
done call["toy_train", [pointer] * 5].call("from-scratch", options.to_json, see, nil, result)
run = JSON.parse(text_of(result))

model = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP)
done call["toy_load", [pointer] * 3].call(run["model"], nil, model)
done call["toy_generate", [pointer] * 6].call(model.ptr, "Once there was", { max_tokens: 20, seed: 1 }.to_json, nil, nil, result)
puts text_of(result)
call["toy_model_free", [pointer], Fiddle::TYPE_VOID].call(model.ptr)
