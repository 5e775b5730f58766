// The grammar: what happens in a story, and in which words.
//
// A story has a hero (name, trait, kind, home), a day (season, weather), one of twelve plots, and an ending
// that follows from them. What was said once comes back: the thing, its color, the place, the helper, the
// weather. The pattern language is described in teller.h.
#include <array>

#include "synth/teller.h"

namespace toy {
namespace {

constexpr Phrase kPhrases[] = {
    {"who", "[2:{hero.He}|3:{hero}|1:The {kind}]"},
    {"thing", "{color} {thing}"},
    {"animals", "<number> <fur> <animals>"},
    {"sight", "@animals <doing> <near> [a|the] <look> <tree>"},
    {"box", "[a|the] <look> <box>"},
    {"dish", "<taste> <food>"},
    {"meal", "@dish[ and @dish|, @dish and @dish| with @dish]"},
    {"hid", "[under|behind|inside]"},
    {"when", "[Soon|Then|At last|Before long|Later|After a while|By and by|Just then|Next day|By luck]"},
    {"tastes",
     "{hero.He} [loved|liked] {food=food} and @dish, and [feared|kept|drew|counted|sang to] <fur> <animals>. "},
    {"day", "One {season=season} {daytime=daytime}, [while|as|when] the "},
};

// A story tells the hero's tastes first, or comes to the day at once.
constexpr std::string_view kBeginning =
    "[Once there [was|lived|dwelt] a {trait=trait} {kind=kind} [named|called] {hero=name}, "
    "[with|beside|above] @animals in a <look> {home=home}. "
    "|In a <look> {home=home} [with|beside|above] @animals [lived|dwelt] a {trait=trait} {kind=kind} "
    "[named|called] {hero=name}. "
    "|This is the [story|tale|song] of {hero=name}, a {trait=trait} {kind=kind} from a <look> {home=home} "
    "among <fur> <animals>. ]"
    "[@tastes@day|2:@day]";

// Rows: spring, summer, autumn, winter. Columns: rain, sun, wind, snow, fog.
constexpr std::array<double, 5> kWeatherOf[] = {{4, 3, 2, 0, 1}, {2, 7, 1, 0, 0}, {4, 1, 3, 0, 3}, {1, 1, 2, 6, 1}};
constexpr std::array<double, 5> kNightWeatherOf[] = {
    {4, 0, 3, 0, 2}, {3, 0, 3, 0, 1}, {4, 0, 3, 0, 3}, {1, 0, 2, 6, 1}};
constexpr size_t kNight = 4;  // row of the list "daytime"

// By weather: what it did, and what comes of it in the evening.
constexpr std::string_view kWeatherDid[] = {
    " [fell|poured|dripped|drummed] on the <land> <scenery>, ",
    " [shone|blazed|glowed|burned] on the <land> <scenery>, ",
    " [blew|howled|whistled|moaned] over the <land> <scenery>, ",
    " [drifted|settled|whirled|sank] onto the <land> <scenery>, ",
    " [hung|lay|rolled|crept] over the <land> <scenery>, ",
};
constexpr std::string_view kEvening[] = {
    "dried {hero.his} wet [ears|feet|coat|tail|scarf|nose|socks|paws]",
    "cooled {hero.his} hot [feet|head|nose|paws|ears|brow|toes|back]",
    "shut the <look> [doors|windows|shutters|gates]",
    "shook the snow from {hero.his} <look> [boots|cap|mittens|coat]",
    "hung out a <look> [lantern|candle|torch|bell]",
};

// It begins with the second half of the sentence about the day. Seeds are planted in spring, races run in summer,
// things and gifts missed in winter.
struct Plot {
  std::string_view story, moral;
  std::array<double, 4> weights;  // by season
};
constexpr Plot kPlots[] = {
    // A lost thing.
    {"{hero} could not find {hero.his} {color=color} {thing=thing}, and felt <sad>. @who "
     "[looked|searched|peered|felt] @hid @box and @hid @box, but found only @animals. @when a <mood> {helper=helper} "
     "<said>, \"Your @thing is {place=place.at}, [among|behind|beside] the [{place.a}|{place.b}].\" @who <walk> to "
     "the {place}, past @sight, gave the {helper} @meal, and {thing.used} the {thing} until <dusk>. ",
     "to [ask|look|hope]",
     {{2, 2, 2, 4}}},
    // A wish.
    {"{hero} wished for a {color=color} {thing=thing}. It cost <number> <metal> coins, so {hero.he} <chore> @box and "
     "<chore> @box for a <mood> {helper=helper} {place=place.at} for <number> [days|weeks]. @when the {helper} paid "
     "with coins and @meal. @who <walk> to the [shop|fair|pedlar], bought the @thing, and {thing.used} it <how> "
     "until <dusk>. ",
     "to [work|save|earn]",
     {{2, 2, 2, 2}}},
    // A broken thing.
    {"{hero} dropped the {color=color} {thing=thing} of a <mood> {helper=helper}, and its {thing.part} "
     "[broke|cracked|snapped|tore]. {hero.He} felt <sad>, hid it @hid @box, and dreamed of @animals. @when {hero.he} "
     "<walk> to the {helper} {place=place.at} with @meal. \"[I broke|It was I who broke] your {thing},\" {hero.he} "
     "<said>. They mended the {thing.part} <how> with <tool>, and {thing.used} the @thing until <dusk>. ",
     "to [tell the truth|be honest|own up]",
     {{2, 2, 2, 2}}},
    // A birthday.
    {"a <mood> {helper=helper} had a birthday, and {hero} had no gift. @who <walk> to the {place=place}, past "
     "@sight, and found <look> [wood|cloth|leather|paper|tin] and <tool> [among|behind|beside] the "
     "[{place.a}|{place.b}]. For <number> hours {hero.he} [cut|sewed|hammered|carved] <how>, and made a "
     "{color=color} {thing=thing}. The {helper} {thing.used} it until <dusk>, and served @meal. ",
     "to [give|sew|carve]",
     {{2, 2, 2, 4}}},
    // Cooking.
    {"{hero} wanted to cook for <number> guests, but had no {dish=food}, only <food> and <food>. @who <walk> to the "
     "{place=place}, past @sight, and asked a <mood> {helper=helper} for {dish}. The {helper} wanted a {color=color} "
     "{thing=thing} for it. {hero} had one @hid @box, and gave it <how>. The {helper} {thing.used} the {thing} until "
     "<dusk>, and {hero} cooked {dish} with @meal. ",
     "to [trade|barter|cook]",
     {{2, 2, 4, 2}}},
    // A race.
    {"there was a race from the {place=place} to the {goal=place}, and {hero} [ran|joined in] <how>. A <mood> "
     "{helper=helper} was faster, but <walk> into @sight, and fell over @box. @who [stopped|turned back] and helped "
     "the {helper} <how>. They <walk> to the {goal}, won @meal and a {color=color} {thing=thing}, and {thing.used} "
     "it in turn. ",
     "to [help|lose|care]",
     {{2, 4, 2, 1}}},
    // A strange noise.
    {"{hero} heard a [loud|soft|long|low|wild] {sound=sound} from the {place=place}. @who felt <sad>, but took a "
     "{color=color} {thing=thing} and <walk> to the {place} <how>, past @sight. The {sound} came from the "
     "[{place.a}|{place.b}], but it was only a <mood> {helper=helper} <near> @box. {hero} {thing.used} the {thing} "
     "until <dusk>, and they shared @meal. ",
     "[courage|not to fear]",
     {{2, 2, 4, 2}}},
    // Planting.
    {"{hero} planted a {color=color} seed {place=place.at}, [among|behind|beside] the [{place.a}|{place.b}]. @who "
     "[watered|watched|guarded] it <how> for <number> [days|weeks], but @animals and @animals came to "
     "[eat|trample|steal] it. @when a <mood> {helper=helper} brought <tool> and @box for a fence. The {color} seed "
     "became a <look> <tree>, and {hero} gave the {helper} @meal. ",
     "[patience|to wait]",
     {{6, 2, 1, 0}}},
    // A rescue.
    {"someone called for help {place=place.at}, and {hero} [heard|came] <how>. It was a <mood> {helper=helper}, "
     "[caught|stuck|trapped] @hid @box among the [{place.a}|{place.b}]. @who <walk> home for a {color=color} "
     "{thing=thing}. {hero.He} pushed the {thing} under the {helper} and called @animals and @animals, who pulled "
     "<how>. The {thing.part} of the {thing} broke, but the {helper} mended it with <tool>, and brought @meal. ",
     "to [save|rescue|trust] others",
     {{2, 2, 2, 4}}},
    // A treasure.
    {"{hero} found a <look> map of the {place=place} @hid @box. @who <walk> to the {place} <how>, past @sight, and "
     "dug [among|behind|beside] the [{place.a}|{place.b}]. @when {hero.he} found @box, and in it a {color=color} "
     "{thing=thing} and <number> <metal> coins. {hero.He} {thing.used} the {thing} until <dusk>, and gave the coins "
     "to a <mood> {helper=helper} for @meal. ",
     "to [give|dig|be kind]",
     {{2, 4, 2, 2}}},
    // An errand.
    {"the <mood> {helper=helper} {place=place.at} sent for a {color=color} {thing=thing}, and {hero} [took "
     "it|carried it|set out with it]. @who <walk> <how> past @sight and past @sight. [Near|Before] the {place} "
     "{hero.he} [slipped|tripped] on @box, and the {thing.part} of the {thing} [bent|came loose|cracked]. {hero} "
     "mended it with <tool>. The {helper} {thing.used} the @thing until <dusk>, and paid with @meal. ",
     "to [keep promises|be careful]",
     {{2, 2, 2, 2}}},
    // A quarrel.
    {"{hero} and a <mood> {helper=helper} both wanted the same {color=color} {thing=thing}. They "
     "[pulled|tugged|argued|shouted] until <dusk>, and the {thing.part} of the {thing} [broke|tore|snapped|came "
     "off]. @who <walk> home, felt <sad>, and dreamed of @animals. @when {hero.he} took @meal to the {helper} <how>. "
     "The {helper} brought <tool> and @box, they mended the {thing.part}, and {thing.used} the @thing in turn. ",
     "to [share|say sorry|make peace]",
     {{2, 2, 2, 2}}},
};

const Plot& say_plot(Teller& tell) {
  std::vector<Alternative> plots;
  for (const Plot& p : kPlots) plots.push_back({p.story, p.weights[tell.row("season")]});
  return kPlots[tell.say_one(plots)];
}

}  // namespace

std::span<const Phrase> story_phrases() { return kPhrases; }

void tell_story(Chooser& chooser) {
  Teller tell(chooser);
  tell.say(kBeginning);
  const size_t season = tell.row("season");
  tell.draw("weather", "weather", (tell.row("daytime") == kNight ? kNightWeatherOf : kWeatherOf)[season]);
  tell.say(kWeatherDid[tell.row("weather")]);
  const Plot& plot = say_plot(tell);
  tell.say("[Back in the {home}|At home|Later] {hero.he} ");
  tell.say(kEvening[tell.row("weather")]);
  if (tell.knows("food")) tell.say(", ate <taste> {food}");
  tell.say(", dreamed of @animals, and felt <glad>. So the {trait} {kind} learned ");
  tell.say(plot.moral);
  tell.say(".\n\n");
}

}  // namespace toy
