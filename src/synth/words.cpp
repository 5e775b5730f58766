// The words of the stories. Each list has its name and its fields, then rows that are parted by commas or line breaks;
// the fields of a row are parted by slashes.
//
// No word of a list is a prefix of another (the texts must parse in one way), and every word that follows "a"
// begins with a consonant.
#include "synth/teller.h"

namespace toy {
namespace {

constexpr std::string_view kWords = R"(
# Who: a hero has a name, a trait and a kind; the helper is known by a trade.
name/he/him/his: Mina/she/her/her, Tilda/she/her/her, Rosa/she/her/her, Wren/she/her/her, Hazel/she/her/her
  Tom/he/him/his, Oscar/he/him/his, Felix/he/him/his, Hugo/he/him/his, Ben/he/him/his
kind: fox, hare, mouse, badger, toad, hedgehog, goat, duck, bear, frog
trait: young, shy, brave, curious, quiet, merry, clever, lazy, gentle, proud, plump, hungry
helper: miller, baker, tailor, smith, fisherman, farmer, gardener, painter, potter, weaver
mood: kind, grumpy, jolly, weary, tall, thin, round, deaf, wise, silent, noisy, friendly, lonely, bearded, busy
  famous, nervous, rich, poor, strong, sunburnt, limping, toothless, one-eyed, freckled, bald, stout, pale, chatty
  gloomy, serious, hoarse, merry, greedy, hasty, honest, cheerful, clever, brave, careful, blushing, barefoot, dusty
  drowsy, sleepy, hungry, tired, proud, patient, mild, modest, lucky, yawning, young, wealthy, humming
# Where.
home: cottage, burrow, barn, hut, den, nest, cellar, wagon, cabin, loft, shed, tent, farmhouse, lighthouse, tower
  houseboat
look: snug, crooked, dusty, mossy, narrow, bright, wooden, tiny, humble, sturdy, low, plain, pretty, shabby, quaint
  leaky, drafty, cozy, thatched, neat, dim, large, strange, broken, rusty, mended, heavy, hollow, square, tilted, worn
  smooth, faded, gloomy, curved, muddy, dry, new, forgotten, striped, patched, sloping, secret, spotless, sunlit
  quiet, tangled, cracked, carved, clean, cold, common, damp, deep, dented, gilded, huge, little, lopsided, marble
  polished, sandy, slanting, velvet
place/at/a/b: river/by the river/reeds/pebbles, mill/at the mill/sacks/millstones
  hill/on the hill/clover/rabbit holes, forest/in the forest/ferns/mushrooms, market/in the market/stalls/baskets
  lake/at the lake/lilies/rowboats, harbor/in the harbor/ropes/barrels, bridge/under the bridge/arches/nettles
  meadow/in the meadow/daisies/molehills, garden/in the garden/roses/cabbages, well/near the well/buckets/bricks
  orchard/in the orchard/apples/ladders
scenery: roofs, hills, fields, lanes, woods, gardens, valley, village, hedges, chimneys, streets, pastures, moor
  ponds, cliffs, barley, orchards, rivers, towers, bridges, marshes, dunes, docks, steeples, stables, bushes, paths
  treetops, meadows, market stalls, haystacks, hen houses
tree: willow, birch, fir, pine, beech, cedar, chestnut, maple, poplar, holly, hawthorn, rowan, linden, walnut, yew
  thorn bush, plum tree, pear tree, fig tree, hazel bush, lime tree, spruce, larch, laurel, juniper, rose bush
  cherry tree, mulberry
near: under, near, behind, beside, beyond, below, around, opposite
box: barrel, bench, basket, bush, cart, chest, crate, fence, haystack, log, stone, sack, stove, stump, table, wall
  wheelbarrow, trough, bucket, gate, cupboard, ladder, pile of wood, doghouse, bathtub, bookshelf, blanket, carpet
  curtain, kettle, trunk, statue, stool, sundial, scarecrow, rowboat, pump, pot, mattress, windowsill
# What: things with what is done with them, and the part that may break.
thing/used/part: kite/flew/tail, drum/beat/skin, lamp/lit/wick, boat/sailed/mast, flute/played/tip, book/read/cover
  ball/kicked/seam, sled/rode/runner, bell/rang/clapper, hat/wore/brim
color: red, blue, green, white, black, gray, brown, yellow
food: bread, jam, soup, cheese, honey, milk, plums, pears, nuts, figs, cake, pie, toast, tea, rice, beans, peas, corn
  grapes, cherries, berries, buns, rolls, tarts, stew, butter, cream, cider, mint, dates, melon, pudding, porridge
  carrots, radishes, turnips, fudge, noodles, pancakes, waffles, sausages, biscuits, bacon, beets, cabbage, celery
  chowder, custard, dumplings, eggs, fish, garlic, gravy, ham, jelly, leeks, lentils, marmalade, muffins, mustard
  oats, olives, onions, peaches
animals: geese, ducks, bees, crows, sheep, goats, cows, hens, moths, ants, snails, frogs, swans, bats, owls, deer
  hares, larks, doves, eels, crabs, wasps, foxes, gulls, mice, moles, newts, pigs, rooks, toads, trout, worms, wrens
  finches, ponies, kittens, spiders, beetles, herons, lambs, camels, parrots, rabbits, cats, puppies, turtles, lizards
  magpies, turkeys, starlings, squirrels, sparrows, salmon, robins, ravens, rats, quails, pigeons, peacocks, mules
  hedgehogs, horses, hornets, flies
fur: white, brown, black, gray, spotted, fat, lean, wet, old, tame, wild, tired, hungry, lost, angry, muddy, timid
  giddy, noisy, silent, sleepy, fluffy, ragged, proud, clever, greedy, lazy, bold, shiny, drowsy, cheeky, huge
  limping, graceful, gentle, fierce, fearless, fine, dizzy, dirty, curly, crafty, cold, chubby, busy, brave, blind
  bashful, slender, slow, smug, sneaky, spoiled, stray, sulky, swift
number: two, three, four, five, six, seven, eight, nine, ten, twelve, twenty, forty, eleven, thirteen, thirty, fifty
metal: copper, silver, gold, tin
tool: glue, thread, wax, nails, string, wire, tape, resin, tar, leather, clay, pins, paste, plaster, ribbons, rivets
  screws, silk, straw, thorns
# How.
walk: walked, ran, hurried, skipped, marched, trotted, wandered, crept, strolled, hopped, rushed, raced, tiptoed
  sneaked, jogged, dashed, plodded, strode, hobbled, waddled, wobbled, scurried, scampered, scrambled, shuffled
  sauntered, stumbled, staggered, galloped, bounced, drifted, rambled
how: slowly, softly, gladly, bravely, calmly, quickly, proudly, quietly, gently, happily, boldly, carefully, eagerly
  politely, sleepily, firmly, shyly, merrily, nervously, patiently, briskly, clumsily, warmly, at once, sweetly
  swiftly, steadily, sternly, solemnly, silently, seriously, sadly, promptly, modestly, meekly, lightly, lazily
  kindly, hoarsely, hastily, gravely, fondly, daintily, cheerfully, busily, bashfully, anxiously, awkwardly
doing: sleeping, singing, dancing, resting, eating, playing, hiding, waiting, fighting, bathing, whispering
  sunning themselves, quarreling, digging, drinking, dozing, nesting, feasting, yawning, shivering, arguing, gossiping
  grazing, grumbling, humming, jumping, juggling, limping, marching, napping, preening, racing, snoring, sneezing
  trembling, wrestling
said: said, cried, whispered, laughed, sighed, called, mumbled, shouted, asked, grunted
sad: sad, cross, worried, lost, ashamed, miserable, gloomy, helpless, upset, puzzled, lonely, weak, foolish, afraid
  sorry, tearful, dizzy, empty, frightened, guilty, hurt, nervous, shaky, small, stupid, tired, uneasy, wretched
glad: glad, proud, calm, merry, thankful, delighted, cheerful, content, lucky, relieved, rich, joyful, warm, brave
  grateful, hopeful, at peace, wise, cozy, drowsy, free, happy, jolly, loved, safe, sleepy, strong, tall
sound: roar, creak, rattle, growl, thump, hum, moan, squeak, whistle, howl, scratch, rumble, crash, sob, hiss, knock
  bark, bang, clatter, gurgle, jingle, murmur, screech, wail
chore: swept, painted, scrubbed, mended, carried, cleaned, washed, polished, guarded, dusted, fixed, moved, oiled
  emptied, stacked, sanded, brushed, built, hauled, hid, lifted, nailed, patched, rolled
taste: sweet, salted, hot, cold, warm, fresh, sour, spicy, burnt, baked, boiled, fried, creamy, crisp, dried, frozen
  golden, green, hard, home-made, juicy, melted, mild, minced, peppered, pickled, plain, red, ripe, roasted, sliced
  smoked, soft, steamed, stuffed, sugared, tasty, toasted, white, wild
land: distant, silent, sleepy, quiet, empty, lonely, gray, green, golden, silver, dark, pale, peaceful, crowded, tidy
  wide, narrow, crooked, ancient, busy, brown, bare, frosty, gloomy, little, misty, nearby, pretty, ruined, wild
  white, winding
# When.
dusk: dusk, midnight, supper, bedtime, dawn, teatime, sunset, sunrise, breakfast, lunchtime, dark, the bells rang
  the moon rose, the stars came out, the geese came home, the lamps were lit, the cock crowed, nobody could stand
  the owls woke, everyone laughed, the dew fell, the sky turned pink, all were tired, the candles went out
season: spring, summer, autumn, winter
daytime: morning, afternoon, evening, day, night, noon
weather: rain, sun, wind, snow, fog
)";

std::vector<std::string_view> split(std::string_view text, std::string_view mark) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(mark);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + mark.size());
  }
}

std::vector<WordList> read_words() {
  std::vector<WordList> lists;
  for (std::string_view line : split(kWords, "\n")) {
    if (line.empty() || line[0] == '#') continue;
    const size_t rows = line[0] == ' ' ? 2 : line.find(": ") + 2;
    if (line[0] != ' ') lists.push_back({split(line.substr(0, rows - 2), "/"), {}});
    line.remove_prefix(rows);
    for (const std::string_view row : split(line, ", ")) lists.back().rows.push_back(split(row, "/"));
  }
  return lists;
}

}  // namespace

std::span<const WordList> word_lists() {
  static const std::vector<WordList> lists = read_words();
  return lists;
}

}  // namespace toy
