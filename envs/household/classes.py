"""Classes of furniture and of things in the household, and which fit where.

Facts of ALFWorld's constants (read in code). Of its 108 classes and 37 receptacle classes, these
are the ones that its games in text can show: the 30 fixed receptacles, and the 58 classes of things
that can be in or on one of them (the seven receptacles that can be carried, from the bowl to the
pot, are things here). Doors, curtains, paintings and the like do not occur. Classes are in
alphabetical order of their lower-case names, which is the order of all lists in the text.
"""

import numpy as np

RECEPTACLES = tuple(
    """
    ArmChair BathtubBasin Bed Cabinet Cart CoffeeMachine CoffeeTable CounterTop Desk DiningTable
    Drawer Dresser Fridge GarbageCan HandTowelHolder LaundryHamper Microwave Ottoman PaintingHanger
    Safe Shelf SideTable SinkBasin Sofa StoveBurner Toaster Toilet ToiletPaperHanger TowelHolder
    TVStand
    """.split()
)
OBJECTS = tuple(
    """
    AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife Candle CD CellPhone
    Cloth CreditCard Cup DeskLamp DishSponge Egg FloorLamp Fork Glassbottle HandTowel Kettle
    KeyChain Knife Ladle Laptop Lettuce Mug Newspaper Pan PaperTowel Pen Pencil PepperShaker Pillow
    Plate Plunger Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle
    Statue TennisRacket TissueBox ToiletPaper ToiletPaperRoll Tomato Towel Vase Watch WateringCan
    WineBottle
    """.split()
)
# Names of the compact wording where they differ from the lower-case name; all are different.
SHORT = dict(
    pair.split("=")
    for pair in """
    ArmChair=chair BathtubBasin=bath Cabinet=cab CoffeeMachine=brewer CoffeeTable=coffee
    CounterTop=top DiningTable=table Dresser=chest GarbageCan=bin HandTowelHolder=hook
    LaundryHamper=hamper Microwave=micro PaintingHanger=nail SideTable=side SinkBasin=sink
    StoveBurner=stove ToiletPaperHanger=holder TowelHolder=rail TVStand=stand
    AlarmClock=alarm BaseballBat=bat BasketBall=ball ButterKnife=butter CellPhone=phone
    CreditCard=card DeskLamp=lamp DishSponge=sponge FloorLamp=light Glassbottle=bottle
    HandTowel=flannel KeyChain=keys Newspaper=paper PaperTowel=napkin PepperShaker=pepper
    RemoteControl=remote SaltShaker=salt SoapBar=soap SoapBottle=gel SprayBottle=spray
    TennisRacket=racket TissueBox=tissue ToiletPaper=tp ToiletPaperRoll=roll WateringCan=can
    WineBottle=wine
    """.split()
)

_SEAT = (
    "BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl"
)
_CHEST = """
    AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle
    KeyChain Laptop Mug Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket
    TissueBox ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle
"""
_TABLE = " ".join(
    name for name in OBJECTS if name not in ("DeskLamp", "FloorLamp", "Pillow", "Plunger", "Towel")
)
_HOLDS = {
    "ArmChair": _SEAT,
    "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
    "Bed": "BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket",
    "Cabinet": """
        Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug
        Newspaper Pan PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle
        TissueBox ToiletPaper ToiletPaperRoll Vase WateringCan WineBottle
    """,
    "Cart": """
        Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle
        Statue TissueBox ToiletPaper ToiletPaperRoll Vase
    """,
    "CoffeeMachine": "Mug",
    "CoffeeTable": _TABLE,
    "CounterTop": _TABLE,
    "Desk": _CHEST + "SoapBottle",
    "DiningTable": _TABLE,
    "Drawer": """
        Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain
        Knife Ladle Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle
        Spatula Spoon SprayBottle TissueBox ToiletPaper ToiletPaperRoll Watch WateringCan
    """,
    "Dresser": _CHEST,
    "Fridge": """
        Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle
    """,
    "GarbageCan": """
        Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper PaperTowel Pen Pencil Potato
        SoapBar SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll Tomato WineBottle
    """,
    "HandTowelHolder": "HandTowel",
    "LaundryHamper": "Cloth",
    "Microwave": "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato",
    "Ottoman": _SEAT,
    "Safe": "CD CellPhone CreditCard KeyChain Statue Vase Watch",
    "Shelf": """
        AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle
        HandTowel Kettle KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot
        RemoteControl SaltShaker SoapBar SoapBottle SprayBottle Statue TissueBox ToiletPaper
        ToiletPaperRoll Vase Watch WateringCan WineBottle
    """,
    "SideTable": _TABLE,
    "SinkBasin": """
        Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife
        Ladle Lettuce Mug Pan Plate Pot Potato SoapBar Spatula Spoon Tomato
    """,
    "Sofa": _SEAT,
    "StoveBurner": "Kettle Pan Pot",
    "Toilet": """
        Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle
        TissueBox ToiletPaper ToiletPaperRoll
    """,
    "ToiletPaperHanger": "ToiletPaper ToiletPaperRoll",
    "TowelHolder": "Towel",
    "TVStand": "TissueBox",
}
# Places of lamps. They cannot be carried, so the games do not determine where they fit: ours.
_LAMP_STANDS = {
    "DeskLamp": ("Desk", "Dresser", "Shelf", "SideTable"),
    "FloorLamp": ("ArmChair", "CoffeeTable", "SideTable", "Sofa"),
}


def receptacle(name: str) -> int:
    """Index of a receptacle class. ValueError for an unknown name."""
    return RECEPTACLES.index(name)


def thing(name: str) -> int:
    """Index of a class of things. ValueError for an unknown name."""
    return OBJECTS.index(name)


def _objects(names: str) -> np.ndarray:
    """Indicator of the classes, bool[len(OBJECTS)]."""
    chosen = {thing(name) for name in names.split()}
    return np.array([number in chosen for number in range(len(OBJECTS))])


def _holds() -> np.ndarray:
    table = np.stack([_objects(_HOLDS.get(name, "")) for name in RECEPTACLES])
    for lamp, stands in _LAMP_STANDS.items():
        for stand in stands:
            table[receptacle(stand), thing(lamp)] = True
    return table


# bool[receptacle class, object class]: which things may be where.
HOLDS = _holds()
OPENABLE = np.isin(RECEPTACLES, ["Fridge", "Cabinet", "Microwave", "Drawer", "Safe"])
HEATABLE = _objects("Apple Bread Cup Egg Mug Plate Potato Tomato")
COOLABLE = _objects("Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle")
CLEANABLE = _objects(
    "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate "
    "Pot Potato SoapBar Spatula Spoon Tomato"
)
TOGGLEABLE = _objects("DeskLamp FloorLamp")
SLICEABLE = _objects("Apple Bread Egg Lettuce Potato Tomato")
SHARP = _objects("ButterKnife Knife")
PORTABLE = ~TOGGLEABLE
# Things that are receptacles themselves; their contents are not modelled (nor in these six tasks).
VESSEL = _objects("Bowl Box Cup Mug Pan Plate Pot")
