// The grammar: what happens in a story, and in which words.
//
// A story has a hero (name, trait, kind, home), a day (season, weather), one of twelve plots, and an ending
// that follows from them. What was said once comes back: the thing, its color, the place, the helper, the
// weather. The pattern language is described in story_teller.h.
#include <array>

#include "data/story_teller.h"

namespace toy {
namespace {

using Patterns = std::span<const std::string_view>;

constexpr Phrase kPhrases[] = {
    {"who", "[4:{hero.He}|3:{hero}|2:The {kind}]"},
    {"thing", "{color} {thing}"},
    {"animals", "<number> <fur> <animals>"},
    {"sight", "@animals <doing> <near> [the|a] <look> <tree>"},
    {"box", "[a|the] <look> <box>"},
    {"meal", "<taste> <food>[ and <taste> <food>|, <food> and <food>| with <food>]"},
    {"when", "[Soon|Then|At last|Before long|A little later|After a while|By and by|Just then]"},
    {"until",
     "until [dusk|midnight|supper|bedtime|the bells rang|the moon rose|the stars came out|{hero.his} arms "
     "hurt]"},
};

// --- Beginnings
// -------------------------------------------------------------------------------------------------

constexpr std::string_view kBeginnings[] = {
    "Once there [was|lived|dwelt] a {trait=trait} {kind=kind} [named|called] {hero=name}. {hero.He} "
    "[lived|slept|dwelt] "
    "in a <look> {home=home} [with|above|beside] @animals. ",
    "In a <look> {home=home} [with|above|beside] @animals [lived|dwelt] a {trait=trait} {kind=kind} "
    "[named|called] "
    "{hero=name}. ",
    "This is the [story|tale|song] of {hero=name}, a {trait=trait} {kind=kind} from a <look> {home=home}. ",
};

constexpr std::string_view kTastes =
    "{hero.He} [loved|liked] {food=food} [and|but not|more than] <food>, and "
    "[feared|kept|drew|counted|dreamed of] "
    "<animals>. ";

// Rows: spring, summer, autumn, winter. Columns: rain, sun, wind, snow, fog.
constexpr std::array<double, 5> kWeatherOf[] = {
    {4, 3, 2, 0, 1}, {2, 7, 1, 0, 0}, {4, 1, 3, 0, 3}, {1, 1, 2, 6, 1}};

constexpr std::string_view kDay = "One {season=season} {daytime=daytime}, [while|as|when] the ";

constexpr std::string_view kTastesOrDay[] = {kTastes, kDay};

// By weather: what it did, and what comes of it in the evening.
constexpr std::string_view kWeatherDid[] = {
    "[fell|poured|dripped|drummed] on the <land> <scenery>, ",
    "[shone|blazed|glowed|burned] on the <land> <scenery>, ",
    "[blew|howled|whistled|moaned] over the <land> <scenery>, ",
    "[drifted|settled|whirled|sank] onto the <land> <scenery>, ",
    "[hung|lay|rolled|crept] over the <land> <scenery>, ",
};
constexpr std::string_view kEvening[] = {
    "dried {hero.his} wet [ears|feet|coat|tail|scarf] by the [fire|stove]",
    "cooled {hero.his} hot [feet|head|nose|paws] in [the shade|a tub|a stream]",
    "shut the [doors|windows|shutters] against the [gusts|wind|storm]",
    "shook the snow from {hero.his} [boots|cap|mittens|coat]",
    "hung a [lantern|candle] in the [window|doorway] for those lost in the fog",
};

// --- Plots
// ------------------------------------------------------------------------------------------------------ Each
// begins with the second half of the sentence about the day, and goes on in a function of its own.

void lost_thing(Teller& tell) {
  tell.say(
      "@who [looked|searched|peered|felt] [under|behind|inside] @box and [under|behind|inside] @box, but "
      "found only "
      "@animals. ");
  tell.say(
      "@when a <mood> {helper=helper} <said>, \"[Your|The|That] @thing is {place=place.at}, "
      "[among|behind|beside] the "
      "[{place.a}|{place.b}].\" ");
  tell.say(
      "@who <walk> to the {place} <how>, and [there it lay|there it was|soon saw it]. {hero.He} thanked the "
      "{helper} "
      "with @meal, and {thing.used} the {thing} @until. ");
}

void wanted_thing(Teller& tell) {
  tell.say(
      "It [cost|was worth] <number> <metal> coins, and {hero} had only <number>. So {hero.he} <chore> @box "
      "for a "
      "<mood> {helper=helper} {place=place.at}, <how>, for <number> [days|weeks]. ");
  tell.say(
      "@when the {helper} paid {hero.him} <number> coins and some <food>. @who <walk> to the "
      "[shop|fair|market "
      "square], bought the @thing, and {thing.used} it @until. ");
}

void broken_thing(Teller& tell) {
  tell.say(
      "{hero.He} felt <sad> and hid it [under|behind|inside] @box. But the {kind} could not "
      "[sleep|eat|sing|smile], "
      "and <walk> to the {helper} {place=place.at}. ");
  tell.say(
      "\"[I broke|It was I who broke] your {thing},\" {hero.he} said <how>. The {helper} [only smiled|was "
      "not "
      "angry|nodded <how>]. Together they mended the {thing.part} with <tool> and <tool>, and {thing.used} "
      "the @thing "
      "@until. ");
}

void birthday(Teller& tell) {
  tell.say(
      "@who <walk> to the {place=place}, and there, among the [{place.a}|{place.b}], {hero.he} "
      "[found|saw|gathered] "
      "[wood|cloth|leather|paper|tin] and <tool>. ");
  tell.say(
      "For <number> hours {hero.he} [cut|sewed|hammered|carved] <how> [behind|beside] @box, and made a "
      "{color=color} "
      "{thing=thing}. The {helper} {thing.used} it <how>, <said>, \"[Thank you|How lovely|Just what I "
      "wanted], "
      "{hero},\" and [cut|served|shared] @meal. ");
}

void cooking(Teller& tell) {
  tell.say(
      "{hero.He} <walk> to the {place=place}, past @sight, and asked a <mood> {helper=helper} for {dish}. ");
  tell.say(
      "The {helper} wanted a {color=color} {thing=thing} for it. @who had one at [home|hand], "
      "[under|behind|inside] "
      "@box, and gave it <how>. The {helper} {thing.used} the {thing}, and {hero} cooked {dish} with <food> "
      "@until. ");
}

void race(Teller& tell) {
  tell.say(
      "A <mood> {helper=helper} [boasted|promised|was sure] to win. But @animals [blocked|crossed] the "
      "[road|path], "
      "and the {helper} fell over @box. ");
  tell.say(
      "@who [stopped|turned back] and [pulled|helped] the {helper} up <how>. They <walk> to the {goal} "
      "together, and "
      "won a {color=color} {thing=thing}, which they {thing.used} in turn @until. ");
}

void strange_noise(Teller& tell) {
  tell.say(
      "@who felt <sad>, but took a {color=color} {thing=thing} and <walk> to the {place} <how>, past "
      "@sight. ");
  tell.say(
      "There was the {sound} again, [among|behind] the [{place.a}|{place.b}]! But it was only a <mood> "
      "{helper=helper}, who [sat|lay|stood] <near> @box. {hero} {thing.used} the {thing}, the {helper} "
      "laughed, and "
      "they shared @meal. ");
}

void planting(Teller& tell) {
  tell.say(
      "@who [watered|watched|guarded] it <how> for <number> [days|weeks], but @animals came to "
      "[eat|trample|steal] it. ");
  tell.say(
      "@when a <mood> {helper=helper} brought <tool> and @box, and they built a fence {place.at}. The "
      "{color} seed grew "
      "as tall as a <tree>, and {hero} picked <food> for the {helper} @until. ");
}

void rescue(Teller& tell) {
  tell.say(
      "It was a <mood> {helper=helper}, [caught|stuck|trapped] [under|behind|inside] @box among the "
      "[{place.a}|{place.b}]. @who <walk> home for a {color=color} {thing=thing}. ");
  tell.say(
      "{hero.He} pushed the {thing} under the {helper} <how>, [pulled|counted to <number>|called @animals], "
      "and the "
      "{helper} was free. The {thing.part} of the {thing} broke, but the {helper} mended it with <tool>, and "
      "brought "
      "@meal. ");
}

void treasure(Teller& tell) {
  tell.say(
      "@who <walk> to the {place} <how>, past @sight, and dug [among|behind|beside] the "
      "[{place.a}|{place.b}] for "
      "<number> hours. ");
  tell.say(
      "@when {hero.he} found @box, and in it a {color=color} {thing=thing} and <number> <metal> coins. "
      "{hero.He} "
      "{thing.used} the {thing}, and gave the coins to a <mood> {helper=helper}, who bought @meal for "
      "[everyone|the poor|both]. ");
}

void errand(Teller& tell) {
  tell.say("@who <walk> <how> past @sight and past @sight. ");
  tell.say(
      "[Near|Before] the {place} {hero.he} [slipped|tripped] on @box, and the {thing.part} of the {thing} "
      "[bent|came "
      "loose|cracked]. {hero} felt <sad>, and mended it with <tool>. The {helper} {thing.used} the @thing, "
      "<said> "
      "\"[Well done|Thank you|Good work], {hero},\" and paid <number> <metal> coins. ");
}

void quarrel(Teller& tell) {
  tell.say(
      "They [pulled|tugged|argued|shouted] @until, and the {thing.part} of the {thing} "
      "[broke|tore|snapped|came off]. "
      "@who <walk> home and felt <sad>. ");
  tell.say(
      "@when {hero.he} took @meal to the {helper}, and <said> <how>, \"[I am sorry|Forgive me|Let us "
      "share].\" The "
      "{helper} brought <tool>, they mended the {thing.part}, and {thing.used} the @thing in turn. ");
}

struct Plot {
  std::string_view opening;
  void (*rest)(Teller&);
  std::string_view moral;
};

constexpr Plot kPlots[] = {
    {"{hero} could not find {hero.his} {color=color} {thing=thing}, and felt <sad>. ", lost_thing,
     "[asking|looking] finds what [crying|waiting] does not"},
    {"{hero} wished for a {color=color} {thing=thing}. ", wanted_thing,
     "[hard|honest] work [beats|is better than] wishing"},
    {"{hero} dropped the {color=color} {thing=thing} of a <mood> {helper=helper}, and its {thing.part} "
     "[broke|cracked|snapped|tore]. ",
     broken_thing, "[truth|courage] mends more than <tool>"},
    {"a <mood> {helper=helper} had a birthday, and {hero} had no gift. ", birthday,
     "the best gifts are made by [hand|heart]"},
    {"{hero} wanted to cook for <number> guests, but had no {dish=food}, only <food> and <food>. ", cooking,
     "a fair trade makes [two|both] happy"},
    {"there was a race from the {place=place} to the {goal=place}, and {hero} [ran|joined in] <how>. ", race,
     "a friend is [worth more|better] than a prize"},
    {"{hero} heard a [loud|soft|long|low|wild] {sound=sound} from the {place=place}. ", strange_noise,
     "[most|many] fears are [small|silly] up close"},
    {"{hero} planted a {color=color} seed {place=place.at}, among the [{place.a}|{place.b}]. ", planting,
     "[good|great] things grow slowly"},
    {"someone called for help {place=place.at}, and {hero} [heard|came] <how>. ", rescue,
     "[small|kind] hands can do great deeds"},
    {"{hero} found a <look> map of the {place=place} [under|behind|inside] @box. ", treasure,
     "gold is best when [shared|given away|spent on friends]"},
    {"the <mood> {helper=helper} {place=place.at} sent for a {color=color} {thing=thing}, and {hero} [took "
     "it|carried "
     "it|set out with it]. ",
     errand, "[promises|friends] must be kept"},
    {"{hero} and a <mood> {helper=helper} both wanted the same {color=color} {thing=thing}. ", quarrel,
     "sharing is [easier|wiser] than fighting"},
};

// Seeds are planted in spring, and lost things are likelier to be missed in winter.
constexpr std::array<double, 12> kPlotsOf[] = {{2, 2, 2, 2, 2, 2, 2, 6, 2, 2, 2, 2},
                                               {2, 2, 2, 2, 2, 4, 2, 2, 2, 4, 2, 2},
                                               {2, 2, 2, 2, 4, 2, 4, 1, 2, 2, 2, 2},
                                               {4, 2, 2, 4, 2, 1, 2, 0, 4, 2, 2, 2}};

size_t choose_plot(Teller& tell) {
  std::array<std::string_view, std::size(kPlots)> openings;
  for (size_t i = 0; i < openings.size(); ++i) openings[i] = kPlots[i].opening;
  return tell.say_one(openings, kPlotsOf[tell.row("season")]);
}

// --- Endings
// ----------------------------------------------------------------------------------------------------

void ending(Teller& tell, const Plot& plot) {
  tell.say("[In the end|Back in the {home}|When all was done] {hero.he} ");
  tell.say(kEvening[tell.row("weather")]);
  tell.say(tell.knows("food") ? ", ate {food}, and felt <glad>. " : ", and felt <glad>. ");
  tell.say("So the {trait} {kind} [learned|saw] that ");
  tell.say(plot.moral);
  tell.say(".\n\n");
}

}  // namespace

std::span<const Phrase> story_phrases() { return kPhrases; }

void tell_story(Chooser& chooser) {
  Teller tell(chooser);
  tell.say_one(kBeginnings);
  if (tell.say_one(kTastesOrDay) == 0) tell.say(kDay);
  tell.weigh("weather", kWeatherOf[tell.row("season")]);
  tell.say("{weather=weather} ");
  tell.say(kWeatherDid[tell.row("weather")]);
  const Plot& plot = kPlots[choose_plot(tell)];
  plot.rest(tell);
  ending(tell, plot);
}

}  // namespace toy
